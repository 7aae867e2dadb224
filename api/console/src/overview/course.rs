//! The recent past: throughput, failures, latency and backlog, over the last hour or day.

use chrono::TimeDelta;
use longshore_shared::kernel::activity::{Course, Point, Span, Waiting};
use maud::{Markup, html};

use crate::chart::{Chart, Series};
use crate::piece::{milliseconds, number};

pub(super) fn draw(course: &Course) -> Markup {
    let (hour, day) = (course.span == Span::Hour, course.span == Span::Day);
    html! {
        section aria-labelledby="course-title" {
            header.title {
                h2 #course-title { @if hour { "The last hour" } @else { "The last day" } }
                nav.switch aria-label="Span of the charts" {
                    a href="/console" aria-current=[hour.then_some("true")] { "Hour" }
                    a href="/console?span=day" aria-current=[day.then_some("true")] { "Day" }
                }
            }
            div.charts {
                (throughput(course, "Finished jobs", &course.jobs))
                (throughput(course, "Calls to destinations", &course.deliveries))
                (latency(course, "Duration of jobs", &course.jobs))
                (latency(course, "Duration of calls", &course.deliveries))
                (backlog(course, "Open jobs", |waiting| waiting.jobs))
                (backlog(course, "Due deliveries", |waiting| waiting.deliveries))
            }
        }
    }
}

fn throughput(course: &Course, title: &str, points: &[Point]) -> Markup {
    let (good, bad) = points.iter().fold((0, 0), |(good, bad), point| (good + point.good, bad + point.bad));
    let summary = match bad {
        0 => format!("{} done, none failed", number(good)),
        _ => format!("{} done, {} failed", number(good), number(bad)),
    };
    let of = |value: fn(&Point) -> i64| points.iter().map(|point| Some(float(value(point)))).collect();
    let bars = vec![
        Series { class: "good", values: of(|point| point.good) },
        Series { class: "bad", values: of(|point| point.bad) },
    ];
    chart(course, title, &summary, bars, vec![], &[("good", "done"), ("bad", "failed")], whole)
}

fn latency(course: &Course, title: &str, points: &[Point]) -> Markup {
    let worst = points
        .iter()
        .filter_map(|point| point.p95_ms)
        .fold(None, |worst: Option<f64>, ms| Some(worst.map_or(ms, |worst| worst.max(ms))));
    let summary = worst.map_or_else(|| "none".to_owned(), |ms| format!("p95 max {}", milliseconds(ms)));
    let lines = vec![
        Series { class: "p95", values: points.iter().map(|point| point.p95_ms).collect() },
        Series { class: "median", values: points.iter().map(|point| point.median_ms).collect() },
    ];
    chart(course, title, &summary, vec![], lines, &[("p95", "p95"), ("median", "median")], milliseconds)
}

fn backlog(course: &Course, title: &str, value: fn(&Waiting) -> i64) -> Markup {
    let values: Vec<_> =
        course.waiting.iter().map(|waiting| waiting.as_ref().map(|w| float(value(w)))).collect();
    let step = TimeDelta::minutes(course.span.step_minutes().into());
    let last = course
        .waiting
        .iter()
        .zip(0..)
        .filter_map(|(waiting, place)| Some((value(waiting.as_ref()?), course.from + step * place)));
    let summary = last.last().map_or_else(
        || "no data".to_owned(),
        |(count, at)| format!("{} at {} UTC", number(count), at.format("%H:%M")),
    );
    chart(
        course,
        title,
        &summary,
        vec![Series { class: "waiting", values }],
        vec![],
        &[("waiting", "waiting")],
        whole,
    )
}

fn chart(
    course: &Course,
    title: &str,
    summary: &str,
    bars: Vec<Series>,
    lines: Vec<Series>,
    legend: &[(&'static str, &'static str)],
    write: fn(f64) -> String,
) -> Markup {
    let step = TimeDelta::minutes(course.span.step_minutes().into());
    Chart { title, summary, from: course.from, step, bars, lines, legend, write }.draw()
}

fn whole(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "counts of a quarter of an hour are far below")]
    let whole = value as i64;
    number(whole)
}

#[expect(clippy::cast_precision_loss, reason = "a chart is drawn to a hundredth")]
fn float(count: i64) -> f64 {
    count as f64
}
