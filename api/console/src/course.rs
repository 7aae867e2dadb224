//! The recent past in charts, over an hour to a week: of the service, of a queue, a kind of job, a worker, an e-shop, a webhook.
//! Where there is a list of what a chart counts, a click on a step leads to the list of its period.

use chrono::TimeDelta;
use longshore_kernel::activity::{Course, Point, Span, Steps, Waiting};
use longshore_kernel::ids::EshopId;
use longshore_kernel::problem::Problem;
use longshore_operate::course::{Kinds, Narrow, OfWorker, Runs, Workers};
use maud::{Markup, html};

use super::asset;
use super::chart::{Chart, Series, Unit};
use super::form::Asked;
use super::piece::{milliseconds, number, plain};

/// The name of a span.
fn name(span: Span) -> &'static str {
    match span {
        Span::Hour => "1 h",
        Span::SixHours => "6 h",
        Span::Day => "24 h",
        Span::Week => "7 d",
    }
}

/// The span that is asked for.
pub(super) fn span(asked: &Asked) -> Result<Span, Problem> {
    Ok(asked.among("span", |word| word.parse().ok())?.unwrap_or(Span::Hour))
}

/// What a page needs to draw charts by script.
pub(super) fn script() -> Markup {
    html! {
        link rel="stylesheet" href=(asset::address("uplot.css"));
        script src=(asset::address("uplot.js")) defer {}
    }
}

/// The steps of charts, and the list that a click on one leads to.
#[derive(Clone, Copy, Debug)]
struct Axis<'s> {
    steps: Steps,
    list: Option<&'s str>,
}

/// The charts of the overview; of the service there are more.
pub(super) fn draw(asked: &Asked, course: &Course, is_service: bool) -> Markup {
    let axis = Axis { steps: course.steps, list: None };
    let jobs = Axis { list: Some(JOBS), ..axis };
    let deliveries = Axis { list: Some(DELIVERIES), ..axis };
    let charts = html! {
        (throughput(jobs, "Finished jobs", &course.jobs))
        (throughput(deliveries, "Calls to destinations", &course.deliveries))
        (latency(jobs, "Duration of jobs", &course.jobs))
        @if is_service {
            (latency(deliveries, "Duration of calls", &course.deliveries))
            (backlog(axis, "Open jobs", &course.waiting, |waiting| waiting.jobs))
            (backlog(axis, "Due deliveries", &course.waiting, |waiting| waiting.deliveries))
        }
    };
    activity(asked, "/console", course.steps.span, &charts)
}

const JOBS: &str = "/console/job";
/// Of the calls of a step, that is the list of the deliveries that were made in it.
const DELIVERIES: &str = "/console/delivery";

/// The charts of the queue of jobs.
pub(super) fn of_jobs(asked: &Asked, here: &str, course: &Course) -> Markup {
    let axis = Axis { steps: course.steps, list: Some(JOBS) };
    let charts = html! {
        (throughput(axis, "Finished jobs", &course.jobs))
        (backlog(axis, "Open jobs", &course.waiting, |waiting| waiting.jobs))
        (latency(axis, "Duration of jobs", &course.jobs))
    };
    activity(asked, here, course.steps.span, &charts)
}

/// The charts of the queue of webhooks.
pub(super) fn of_deliveries(asked: &Asked, here: &str, course: &Course) -> Markup {
    let axis = Axis { steps: course.steps, list: Some(DELIVERIES) };
    let charts = html! {
        (throughput(axis, "Calls to destinations", &course.deliveries))
        (backlog(axis, "Due deliveries", &course.waiting, |waiting| waiting.deliveries))
        (latency(axis, "Duration of calls", &course.deliveries))
    };
    activity(asked, here, course.steps.span, &charts)
}

/// The charts of a queue whose runs are counted: how many there were, and how long they took.
pub(super) fn of_runs(
    asked: &Asked,
    here: &str,
    course: &Course,
    points: &[Point],
    [runs, durations]: [&str; 2],
) -> Markup {
    let axis = Axis { steps: course.steps, list: None };
    let charts = html! {
        (throughput(axis, runs, points))
        (latency(axis, durations, points))
    };
    activity(asked, here, course.steps.span, &charts)
}

/// The charts of a webhook.
pub(super) fn of_webhook(asked: &Asked, here: &str, course: &Narrow) -> Markup {
    let list = format!("{here}#ended");
    let axis = Axis { steps: course.steps, list: Some(&list) };
    activity(asked, here, course.steps.span, &calls(axis, &course.calls))
}

/// The charts of a kind of job.
pub(super) fn of_kind(asked: &Asked, here: &str, course: &Kinds, kind: &str) -> Markup {
    let list = format!("{JOBS}?kind={kind}");
    let axis = Axis { steps: course.steps, list: Some(&list) };
    let title = html! { "Activity of " (plain(kind)) };
    let drawn = runs(axis, ["Finished jobs", "Duration of jobs"], &course.of(kind));
    section(asked, here, course.steps.span, &title, &html! { div.charts { (drawn) } })
}

/// The charts of a worker.
pub(super) fn of_worker(asked: &Asked, here: &str, course: &Workers, worker: &OfWorker) -> Markup {
    let axis = Axis { steps: course.steps, list: None };
    let points = |runs: &[Runs]| runs.iter().map(point).collect::<Vec<_>>();
    let drawn = html! {
        (throughput(axis, "Ended jobs", &points(&worker.jobs)))
        (throughput(axis, "Calls to destinations", &points(&worker.calls)))
        (memory(axis, worker))
    };
    activity(asked, here, course.steps.span, &drawn)
}

/// The megabytes that a worker used, at its most in each step.
pub(super) fn megabytes(worker: &OfWorker) -> Vec<Option<f64>> {
    worker.memory.iter().map(|bytes| bytes.map(|bytes| float(bytes / 1_000_000))).collect()
}

fn memory(axis: Axis<'_>, worker: &OfWorker) -> Markup {
    let values = megabytes(worker);
    let last = values.iter().rev().copied().flatten().next();
    let summary = last.map_or_else(|| "not known".to_owned(), |last| Unit::Megabytes.write(last));
    let lines = vec![Series { class: "median", values, apart: false }];
    chart(axis, "Memory", &summary, (vec![], lines), &[("median", "most")], Unit::Megabytes)
}

/// The charts of an e-shop: of its webhooks and its jobs, as far as the visitor may see them.
pub(super) fn of_eshop(
    asked: &Asked,
    here: &str,
    eshop: EshopId,
    course: &Narrow,
    jobs: Option<&str>,
    webhooks: bool,
) -> Markup {
    let axis = Axis { steps: course.steps, list: None };
    let deliveries = format!("{DELIVERIES}?eshop={eshop}");
    let charts = html! {
        @if webhooks { (calls(Axis { list: Some(&deliveries), ..axis }, &course.calls)) }
        @if let Some(list) = jobs {
            @let axis = Axis { list: Some(list), ..axis };
            (throughput(axis, "Finished jobs", &course.jobs))
            (latency(axis, "Duration of jobs", &course.jobs))
        }
    };
    activity(asked, here, course.steps.span, &charts)
}

fn activity(asked: &Asked, here: &str, chosen: Span, charts: &Markup) -> Markup {
    section(asked, here, chosen, &html! { "Activity" }, &html! { div.charts { (charts) } })
}

/// A part of a page about a span, with the choice of that.
pub(super) fn section(asked: &Asked, here: &str, chosen: Span, title: &Markup, content: &Markup) -> Markup {
    let address = |word: &str| asked.address(here, &["span", "done", "count"], &[("span", word)]);
    html! {
        section aria-labelledby="course-title" {
            header.title {
                h2 #course-title { (title) }
                nav.switch aria-label="Span of the charts" {
                    @for span in Span::ALL {
                        a href=(address(span.as_str())) aria-current=[(chosen == span).then_some("true")] { (name(span)) }
                    }
                }
            }
            (content)
        }
    }
}

fn calls(axis: Axis<'_>, calls: &[Runs]) -> Markup {
    runs(axis, ["Calls to destinations", "Duration of calls"], calls)
}

/// What ran, and how long it took.
fn runs(axis: Axis<'_>, [count, duration]: [&str; 2], runs: &[Runs]) -> Markup {
    let points: Vec<Point> = runs.iter().map(point).collect();
    html! {
        (throughput(axis, count, &points))
        (durations(axis, duration, &points, ["slowest", "mean"]))
    }
}

/// Runs as a chart draws them.
fn point(runs: &Runs) -> Point {
    Point { good: runs.good, bad: runs.bad, median_ms: runs.mean_ms, p95_ms: runs.slowest_ms }
}

fn throughput(axis: Axis<'_>, title: &str, points: &[Point]) -> Markup {
    let (good, bad) = points.iter().fold((0, 0), |(good, bad), point| (good + point.good, bad + point.bad));
    let summary = match bad {
        0 => format!("{} done, none failed", number(good)),
        _ => format!("{} done, {} failed", number(good), number(bad)),
    };
    let of = |value: fn(&Point) -> i64| points.iter().map(|point| Some(float(value(point)))).collect();
    let bars = vec![Series { class: "good", values: of(|point| point.good), apart: false }];
    let legend = [("good", "done"), ("bad", "failed")];
    if bad == 0 {
        return chart(axis, title, &summary, (bars, vec![]), &legend[..1], Unit::Count);
    }
    // a few failures beside thousands are seen only by a scale of their own
    let lines = vec![Series { class: "bad", values: of(|point| point.bad), apart: true }];
    chart(axis, title, &summary, (bars, lines), &legend, Unit::Count)
}

fn latency(axis: Axis<'_>, title: &str, points: &[Point]) -> Markup {
    durations(axis, title, points, ["p95", "median"])
}

fn durations(axis: Axis<'_>, title: &str, points: &[Point], words: [&'static str; 2]) -> Markup {
    let worst = points.iter().filter_map(|point| point.p95_ms).reduce(f64::max);
    let [long, usual] = words;
    let summary =
        worst.map_or_else(|| "none".to_owned(), |ms| format!("{long} at most {}", milliseconds(ms)));
    let of = |value: fn(&Point) -> Option<f64>, class| Series {
        class,
        values: points.iter().map(value).collect(),
        apart: false,
    };
    let lines = vec![of(|point| point.p95_ms, "p95"), of(|point| point.median_ms, "median")];
    chart(axis, title, &summary, (vec![], lines), &[("p95", long), ("median", usual)], Unit::Milliseconds)
}

fn backlog(axis: Axis<'_>, title: &str, waiting: &[Option<Waiting>], value: fn(&Waiting) -> i64) -> Markup {
    let values: Vec<_> = waiting.iter().map(|waiting| waiting.as_ref().map(|w| float(value(w)))).collect();
    let step = TimeDelta::minutes(axis.steps.minutes.into());
    let last = waiting
        .iter()
        .zip(0..)
        .filter_map(|(waiting, place)| Some((value(waiting.as_ref()?), axis.steps.from + step * place)));
    let summary = last.last().map_or_else(
        || "no data".to_owned(),
        |(count, at)| format!("{} at {} UTC", number(count), at.format("%H:%M")),
    );
    let bars = vec![Series { class: "waiting", values, apart: false }];
    chart(
        Axis { list: None, ..axis },
        title,
        &summary,
        (bars, vec![]),
        &[("waiting", "waiting")],
        Unit::Count,
    )
}

fn chart(
    axis: Axis<'_>,
    title: &str,
    summary: &str,
    (bars, lines): (Vec<Series>, Vec<Series>),
    legend: &[(&'static str, &'static str)],
    unit: Unit,
) -> Markup {
    let step = TimeDelta::minutes(axis.steps.minutes.into());
    Chart { title, summary, from: axis.steps.from, step, bars, lines, legend, unit, list: axis.list }.draw()
}

#[expect(clippy::cast_precision_loss, reason = "a chart is drawn to a hundredth")]
pub(super) fn float(count: i64) -> f64 {
    count as f64
}
