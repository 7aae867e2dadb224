//! The recent past: throughput, failures, latency and backlog, over an hour to a week.

use chrono::TimeDelta;
use longshore_shared::kernel::activity::{Course, Point, Span, Waiting};
use maud::{Markup, html};

use crate::chart::{Chart, Series, Unit};
use crate::piece::{milliseconds, number};

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

/// The span with that word.
pub(super) fn span_of(word: &str) -> Option<Span> {
    SPANS.iter().find(|(_, known, _)| *known == word).map(|(span, ..)| *span)
}

/// The charts of a span, and the choice of another.
pub(super) fn draw(course: &Course, choice: &[Span]) -> Markup {
    html! {
        section aria-labelledby="course-title" {
            header.title {
                h2 #course-title { "Activity" }
                nav.switch aria-label="Span of the charts" {
                    @for (span, word, name) in SPANS.iter().filter(|(span, ..)| choice.contains(span)) {
                        a href={"/console?span=" (word)} aria-current=[(course.span == *span).then_some("true")] { (name) }
                    }
                }
            }
            div.charts {
                (throughput(course, "Finished jobs", &course.jobs))
                (throughput(course, "Calls to destinations", &course.deliveries))
                (latency(course, "Duration of jobs", &course.jobs))
                @if course.waiting.iter().any(Option::is_some) || choice.len() == SPANS.len() {
                    (latency(course, "Duration of calls", &course.deliveries))
                    (backlog(course, "Open jobs", |waiting| waiting.jobs))
                    (backlog(course, "Due deliveries", |waiting| waiting.deliveries))
                }
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
    let bars = vec![Series { class: "good", values: of(|point| point.good) }];
    let lines = vec![Series { class: "bad", values: of(|point| point.bad) }];
    chart(course, title, &summary, bars, lines, &[("good", "done"), ("bad", "failed")], Unit::Count)
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
    chart(course, title, &summary, vec![], lines, &[("p95", "p95"), ("median", "median")], Unit::Milliseconds)
}

fn backlog(course: &Course, title: &str, value: fn(&Waiting) -> i64) -> Markup {
    let values: Vec<_> =
        course.waiting.iter().map(|waiting| waiting.as_ref().map(|w| float(value(w)))).collect();
    let step = TimeDelta::minutes(course.step_minutes.into());
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
        Unit::Count,
    )
}

fn chart(
    course: &Course,
    title: &str,
    summary: &str,
    bars: Vec<Series>,
    lines: Vec<Series>,
    legend: &[(&'static str, &'static str)],
    unit: Unit,
) -> Markup {
    let step = TimeDelta::minutes(course.step_minutes.into());
    Chart { title, summary, from: course.from, step, bars, lines, legend, unit }.draw()
}

#[expect(clippy::cast_precision_loss, reason = "a chart is drawn to a hundredth")]
pub(super) fn float(count: i64) -> f64 {
    count as f64
}
