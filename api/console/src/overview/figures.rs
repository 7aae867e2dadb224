//! The figures of the recent past, each with its course.

use longshore_domain::webhook::lane::backlog::COUNTED;
use longshore_kernel::activity::{Course, Point, Waiting};
use longshore_kernel::figure::AtLeast;
use maud::{Markup, html};

use crate::chart::spark;
use crate::course::float;
use crate::piece::{milliseconds, number};

struct Figure {
    name: &'static str,
    value: String,
    more: String,
    class: &'static str,
    course: Vec<Option<f64>>,
    /// The page of what it counts.
    page: &'static str,
}

const JOBS: &str = "/console/job?hours=1";
const DELIVERIES: &str = "/console/delivery?hours=1";

/// The figures of the last hour.
pub(super) fn draw(course: &Course) -> Markup {
    let span = "in the last hour";
    let last = course.waiting.iter().rev().flatten().next();
    let mut figures = vec![
        throughput("Jobs finished", &course.jobs, span, JOBS),
        throughput("Calls delivered", &course.deliveries, span, DELIVERIES),
        failures("Jobs failed", &course.jobs, "/console/failure"),
        failures("Calls failed", &course.deliveries, "/console/webhook?health=failing"),
    ];
    if let Some(slowest) = slowest(&course.deliveries) {
        figures.push(slowest);
    }
    if let Some(last) = last {
        let of = |value: fn(&Waiting) -> i64| {
            course.waiting.iter().map(|waiting| waiting.as_ref().map(|w| float(value(w)))).collect()
        };
        let (name, value) = ("Jobs open", number(last.jobs));
        figures.push(Figure {
            name,
            value,
            more: "at the last look".to_owned(),
            class: "waiting",
            course: of(|w| w.jobs),
            page: "/console/queue",
        });
        let oldest = milliseconds(last.oldest_seconds * 1e3);
        let more = match last {
            Waiting { deliveries: 0, .. } => "none waits".to_owned(),
            // the others are held until the next probe of their destination
            Waiting { oldest_seconds: 0.0, .. } => "none waits for a worker".to_owned(),
            _ => format!("the oldest for {oldest}"),
        };
        // of one webhook no more are counted
        let due = AtLeast { count: last.deliveries, is_more: last.deliveries >= COUNTED };
        let (name, value) = ("Deliveries due", due.in_words());
        let (course, page) = (of(|w| w.deliveries), "/console/delivery?state=pending&waits=due&sort=oldest");
        figures.push(Figure { name, value, more, class: "waiting", course, page });
    }
    html! {
        section.figures aria-label="Figures" {
            @for figure in &figures {
                a.figure href=(figure.page) {
                    span.muted { (figure.name) }
                    strong { (figure.value) }
                    span.muted { (figure.more) }
                    (spark(figure.class, &figure.course))
                }
            }
        }
    }
}

fn throughput(name: &'static str, points: &[Point], span: &str, page: &'static str) -> Figure {
    let course = points.iter().map(|point| Some(float(point.good))).collect();
    let value = number(points.iter().map(|point| point.good).sum::<i64>());
    Figure { name, value, more: span.to_owned(), class: "good", course, page }
}

/// The share of what failed.
fn failures(name: &'static str, points: &[Point], page: &'static str) -> Figure {
    let bad: i64 = points.iter().map(|point| point.bad).sum();
    let all: i64 = bad + points.iter().map(|point| point.good).sum::<i64>();
    // a hundredth, rounded up: 0 % means none
    let hundredths = if all == 0 { 0 } else { (bad * 10_000 + all - 1) / all };
    let value = format!("{}.{:02} %", hundredths / 100, hundredths % 100);
    let more = format!("{} of {}", number(bad), number(all));
    let course = points.iter().map(|point| Some(float(point.bad))).collect();
    Figure { name, value, more, class: "bad", course, page }
}

/// The duration that 95 % of the calls did not exceed, in the last minute that had any.
fn slowest(calls: &[Point]) -> Option<Figure> {
    let last = calls.iter().rev().find_map(|point| point.p95_ms)?;
    let course = calls.iter().map(|point| point.p95_ms).collect();
    let more = "95 % in the last minute with calls".to_owned();
    let (name, value) = ("Duration of calls", milliseconds(last));
    Some(Figure { name, value, more, class: "p95", course, page: DELIVERIES })
}
