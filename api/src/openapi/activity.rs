//! How much is in each state, and what was done.

use longshore_domain::attention::Severity;
use longshore_kernel::activity::Span;
use longshore_operate::course;
use serde_json::json;

use super::example::CHANGED;
use super::operation::{Operation, operation};
use super::schema::{
    Shape, any_integer, any_number, any_text, array_of, boolean, named, object, one_of, or_null, timestamp,
};
use crate::routes::activity;

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let count = |count: i64| json!({"count": count, "atLeast": false});
    let shown = course::SHOWN;
    vec![
        operation(activity::read_counts, "Counts jobs, deliveries and orders by state")
            .says("As they are on every page of the console: up to five seconds old. An admin gets those of its organisations.")
            .schema("Count", counted())
            .schema("Counts", counts())
            .answers(
                200,
                "The counts.",
                named("Counts"),
                Some(json!({
                    "at": CHANGED, "attention": {"lines": 2, "worst": "critical"},
                    "jobs": {"queued": count(12), "running": count(3), "retrying": count(0), "failedInADay": count(5)},
                    "deliveries": {
                        "due": count(7), "waitingForRetry": {"count": 1_000, "atLeast": true}, "exhaustedInADay": count(2),
                    },
                    "orders": {"incorrect": count(1)},
                })),
            ),
        of_span(operation(activity::read_job_activity, "Reads what each kind of job did"))
            .says("Jobs that ended, as the charts of the console have them. For callers who see all organisations they are counted by their end; for others, the newest 20,000 jobs are counted by their acceptance.")
            .schema("JobActivity", jobs())
            .answers(
                200,
                "The kinds of which jobs ended, those with most first.",
                named("JobActivity"),
                Some(json!({
                    "from": CHANGED, "stepMinutes": 1,
                    "kinds": [{"kind": "product.sync", "steps": [
                        {"succeeded": 41, "failed": 1, "meanMs": 812.5, "slowestMs": 4_120.0},
                    ]}],
                })),
            ),
        of_span(operation(activity::read_worker_activity, "Reads what each worker did"))
            .says(&format!("The jobs that each worker ended, its calls to destinations, and its memory; the {shown} workers that were there last. Workers work for all organisations: the list is empty for callers who do not see all of them."))
            .schema("WorkerActivity", workers())
            .answers(
                200,
                "The workers, those that were there last first.",
                named("WorkerActivity"),
                Some(json!({
                    "from": CHANGED, "stepMinutes": 1,
                    "workers": [{"name": "box-7", "lastSeenAt": CHANGED, "steps": [
                        {"jobs": 12, "failedJobs": 0, "calls": 950, "failedCalls": 3, "memoryBytes": 41_943_040},
                    ]}],
                })),
            ),
    ]
}

/// An operation about a span.
fn of_span(operation: Operation) -> Operation {
    operation.parameter("span", one_of(&Span::WORDS))
}

pub(super) fn counted() -> Shape {
    object()
        .about("A count.")
        .required("count", any_integer())
        .required("atLeast", boolean())
        .explain(&[("atLeast", "Whether counting stopped there: there may be more.")])
}

fn counts() -> Shape {
    let of = |names: &[&str]| names.iter().fold(object(), |shape, name| shape.required(name, named("Count")));
    let attention = object()
        .about("What needs attention, without what was acknowledged or muted.")
        .required("lines", any_integer())
        .required("worst", or_null(one_of(&Severity::WORDS)))
        .explain(&[("worst", "The severity of the worst line; null if there is none.")]);
    let jobs = of(&["queued", "running", "retrying", "failedInADay"])
        .about("Jobs by state.")
        .explain(&[("failedInADay", "Jobs of the last 24 hours that failed.")]);
    let deliveries = of(&["due", "waitingForRetry", "exhaustedInADay"]).about("Deliveries by state.").explain(&[
        ("due", "Pending deliveries of active webhooks that are due."),
        ("waitingForRetry", "Pending deliveries of active webhooks whose last attempt failed, and whose next one is not due."),
        ("exhaustedInADay", "Deliveries that were exhausted in the last 24 hours."),
    ]);
    object()
        .about("How much is in each state.")
        .required("at", timestamp())
        .required("attention", attention.called("AttentionCount"))
        .required("jobs", jobs.called("JobCounts"))
        .required("deliveries", deliveries.called("DeliveryCounts"))
        .required("orders", of(&["incorrect"]).about("Orders by state.").called("OrderCounts"))
        .explain(&[("at", "When they were counted.")])
}

/// The members of every answer about a span.
fn span() -> Shape {
    object()
        .required("from", timestamp())
        .required("stepMinutes", any_integer())
        .explain(&[("from", "Where the first step begins."), ("stepMinutes", "Minutes of a step.")])
}

fn jobs() -> Shape {
    let step = object()
        .about("The jobs of a kind that ended in a step of time.")
        .required("succeeded", any_integer())
        .required("failed", any_integer())
        .required("meanMs", or_null(any_number()))
        .required("slowestMs", or_null(any_number()))
        .explain(&[
            ("meanMs", "How long a job took on average, from its acceptance to its end; null if none ended."),
            ("slowestMs", "How long the slowest one took."),
        ]);
    let kind = object()
        .about("A kind of job in a span of time.")
        .required("kind", named("JobKind"))
        .required("steps", array_of(step.called("JobStep")))
        .explain(&[("steps", "The steps, the oldest first.")]);
    span().about("What each kind of job did.").required("kinds", array_of(kind.called("JobKindActivity")))
}

fn workers() -> Shape {
    let step = object()
        .about("What a worker did in a step of time.")
        .required("jobs", any_integer())
        .required("failedJobs", any_integer())
        .required("calls", any_integer())
        .required("failedCalls", any_integer())
        .required("memoryBytes", or_null(any_integer()))
        .explain(&[
            ("jobs", "Jobs that it ended."),
            ("failedJobs", "Those of them that failed."),
            ("calls", "Its calls to destinations."),
            ("failedCalls", "Those of them that did not deliver."),
            (
                "memoryBytes",
                "The most memory that it used; null if it was not there, or its system does not say it.",
            ),
        ]);
    let worker = object()
        .about("A worker in a span of time.")
        .required("name", any_text())
        .required("lastSeenAt", timestamp())
        .required("steps", array_of(step.called("WorkerStep")))
        .explain(&[("name", "Host and process id."), ("steps", "The steps, the oldest first.")]);
    span().about("What each worker did.").required("workers", array_of(worker.called("OneWorkerActivity")))
}
