//! The recent past in charts, over an hour to a week: of the service, of a queue, an e-shop, a webhook. Where there is a list of
//! what a chart counts, a click on a step leads to the list of its period.

use chrono::{DateTime, TimeDelta, Utc};
use longshore_shared::kernel::activity::{Course, Point, Span, Waiting};
use longshore_shared::kernel::ids::EshopId;
use longshore_shared::operate::course::{Calls, Narrow};
use maud::{Markup, html};

use super::asset;
use super::chart::{Chart, Series, Unit};
use super::form::Asked;
use super::piece::{milliseconds, number};

/// The word of a span in an address, and its name.
const SPANS: [(Span, &str, &str); 4] = [
    (Span::Hour, "hour", "1 h"),
    (Span::SixHours, "six-hours", "6 h"),
    (Span::Day, "day", "24 h"),
    (Span::Week, "week", "7 d"),
];

/// The word of a span.
pub(super) fn word(span: Span) -> &'static str {
    SPANS.iter().find(|(known, ..)| *known == span).map_or("", |(_, word, _)| word)
}

/// The span that is asked for.
pub(super) fn span(asked: &Asked) -> Span {
    let asked = asked.get("span");
    SPANS.iter().find(|(_, word, _)| asked == Some(*word)).map_or(Span::Hour, |(span, ..)| *span)
}

/// What a page needs to draw charts by script.
pub(super) fn script() -> Markup {
    html! {
        link rel="stylesheet" href=(asset::address("uplot.css"));
        script src=(asset::address("uplot.js")) defer {}
    }
}

/// The steps of charts, the list that a click leads to.
#[derive(Clone, Copy, Debug)]
struct Steps<'s> {
    from: DateTime<Utc>,
    minutes: i32,
    list: Option<&'s str>,
}

/// The charts of the overview; of the service there are more.
pub(super) fn draw(asked: &Asked, course: &Course, is_service: bool) -> Markup {
    let steps = Steps { from: course.from, minutes: course.step_minutes, list: None };
    let jobs = Steps { list: Some(JOBS), ..steps };
    let deliveries = Steps { list: Some(DELIVERIES), ..steps };
    let charts = html! {
        (throughput(jobs, "Finished jobs", &course.jobs))
        (throughput(deliveries, "Calls to destinations", &course.deliveries))
        (latency(jobs, "Duration of jobs", &course.jobs))
        @if is_service {
            (latency(deliveries, "Duration of calls", &course.deliveries))
            (backlog(steps, "Open jobs", &course.waiting, |waiting| waiting.jobs))
            (backlog(steps, "Due deliveries", &course.waiting, |waiting| waiting.deliveries))
        }
    };
    section(asked, "/console", course.span, &charts)
}

const JOBS: &str = "/console/job";
/// Of the calls of a step, that is the list of the deliveries that were made in it.
const DELIVERIES: &str = "/console/delivery";

/// The charts of the queue of jobs.
pub(super) fn of_jobs(asked: &Asked, here: &str, course: &Course) -> Markup {
    let steps = Steps { from: course.from, minutes: course.step_minutes, list: Some(JOBS) };
    let charts = html! {
        (throughput(steps, "Finished jobs", &course.jobs))
        (backlog(steps, "Open jobs", &course.waiting, |waiting| waiting.jobs))
        (latency(steps, "Duration of jobs", &course.jobs))
    };
    section(asked, here, course.span, &charts)
}

/// The charts of the queue of webhooks.
pub(super) fn of_deliveries(asked: &Asked, here: &str, course: &Course) -> Markup {
    let steps = Steps { from: course.from, minutes: course.step_minutes, list: Some(DELIVERIES) };
    let charts = html! {
        (throughput(steps, "Calls to destinations", &course.deliveries))
        (backlog(steps, "Due deliveries", &course.waiting, |waiting| waiting.deliveries))
        (latency(steps, "Duration of calls", &course.deliveries))
    };
    section(asked, here, course.span, &charts)
}

/// The charts of a queue whose runs are counted: how many there were, and how long they took.
pub(super) fn of_runs(
    asked: &Asked,
    here: &str,
    course: &Course,
    points: &[Point],
    [runs, durations]: [&str; 2],
) -> Markup {
    let steps = Steps { from: course.from, minutes: course.step_minutes, list: None };
    let charts = html! {
        (throughput(steps, runs, points))
        (latency(steps, durations, points))
    };
    section(asked, here, course.span, &charts)
}

/// The charts of a webhook.
pub(super) fn of_webhook(asked: &Asked, here: &str, course: &Narrow) -> Markup {
    let list = format!("{here}#ended");
    let steps = Steps { from: course.from, minutes: course.step_minutes, list: Some(&list) };
    section(asked, here, course.span, &calls(steps, &course.calls))
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
    let steps = Steps { from: course.from, minutes: course.step_minutes, list: None };
    let deliveries = format!("{DELIVERIES}?eshop={eshop}");
    let charts = html! {
        @if webhooks { (calls(Steps { list: Some(&deliveries), ..steps }, &course.calls)) }
        @if let Some(list) = jobs {
            @let steps = Steps { list: Some(list), ..steps };
            (throughput(steps, "Finished jobs", &course.jobs))
            (latency(steps, "Duration of jobs", &course.jobs))
        }
    };
    section(asked, here, course.span, &charts)
}

fn section(asked: &Asked, here: &str, chosen: Span, charts: &Markup) -> Markup {
    let address = |word: &str| asked.address(here, &["span", "done", "count"], &[("span", word)]);
    html! {
        section aria-labelledby="course-title" {
            header.title {
                h2 #course-title { "Activity" }
                nav.switch aria-label="Span of the charts" {
                    @for (span, word, name) in SPANS {
                        a href=(address(word)) aria-current=[(chosen == span).then_some("true")] { (name) }
                    }
                }
            }
            div.charts { (charts) }
        }
    }
}

fn calls(steps: Steps<'_>, calls: &[Calls]) -> Markup {
    let point = |calls: &Calls| Point {
        good: calls.delivered,
        bad: calls.failed,
        median_ms: calls.mean_ms,
        p95_ms: calls.slowest_ms,
    };
    let points: Vec<Point> = calls.iter().map(point).collect();
    html! {
        (throughput(steps, "Calls to destinations", &points))
        (durations(steps, "Duration of calls", &points, ["slowest", "mean"]))
    }
}

fn throughput(steps: Steps<'_>, title: &str, points: &[Point]) -> Markup {
    let (good, bad) = points.iter().fold((0, 0), |(good, bad), point| (good + point.good, bad + point.bad));
    let summary = match bad {
        0 => format!("{} done, none failed", number(good)),
        _ => format!("{} done, {} failed", number(good), number(bad)),
    };
    let of = |value: fn(&Point) -> i64| points.iter().map(|point| Some(float(value(point)))).collect();
    let bars = vec![Series { class: "good", values: of(|point| point.good), apart: false }];
    // a few failures beside thousands are seen only by a scale of their own
    let lines = vec![Series { class: "bad", values: of(|point| point.bad), apart: true }];
    chart(steps, title, &summary, (bars, lines), &[("good", "done"), ("bad", "failed")], Unit::Count)
}

fn latency(steps: Steps<'_>, title: &str, points: &[Point]) -> Markup {
    durations(steps, title, points, ["p95", "median"])
}

fn durations(steps: Steps<'_>, title: &str, points: &[Point], words: [&'static str; 2]) -> Markup {
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
    chart(steps, title, &summary, (vec![], lines), &[("p95", long), ("median", usual)], Unit::Milliseconds)
}

fn backlog(steps: Steps<'_>, title: &str, waiting: &[Option<Waiting>], value: fn(&Waiting) -> i64) -> Markup {
    let values: Vec<_> = waiting.iter().map(|waiting| waiting.as_ref().map(|w| float(value(w)))).collect();
    let step = TimeDelta::minutes(steps.minutes.into());
    let last = waiting
        .iter()
        .zip(0..)
        .filter_map(|(waiting, place)| Some((value(waiting.as_ref()?), steps.from + step * place)));
    let summary = last.last().map_or_else(
        || "no data".to_owned(),
        |(count, at)| format!("{} at {} UTC", number(count), at.format("%H:%M")),
    );
    let bars = vec![Series { class: "waiting", values, apart: false }];
    chart(
        Steps { list: None, ..steps },
        title,
        &summary,
        (bars, vec![]),
        &[("waiting", "waiting")],
        Unit::Count,
    )
}

fn chart(
    steps: Steps<'_>,
    title: &str,
    summary: &str,
    (bars, lines): (Vec<Series>, Vec<Series>),
    legend: &[(&'static str, &'static str)],
    unit: Unit,
) -> Markup {
    let step = TimeDelta::minutes(steps.minutes.into());
    Chart { title, summary, from: steps.from, step, bars, lines, legend, unit, list: steps.list }.draw()
}

#[expect(clippy::cast_precision_loss, reason = "a chart is drawn to a hundredth")]
pub(super) fn float(count: i64) -> f64 {
    count as f64
}
