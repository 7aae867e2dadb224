//! Jobs.

use longshore_shared::job::fields::JOB as JOBS;
use serde_json::json;

use super::example::{CHANGED, CREATED, ESHOP, JOB as SYNC, ORGANISATION, TOKEN};
use super::operation::{JSON, Operation, get, list, post, put, read};
use super::record::Described;
use super::schema::{
    about, any_integer, any_text, array_of, default, integer, named, object, one_of, or_null,
};
use crate::routes::job::{control, events, item_error, read as handlers};

/// Operations of this room.
pub(super) fn operations() -> Vec<Operation> {
    let errors = json!({
        "results": [{"index": 2, "key": "MUG-3", "code": "required", "message": "name is required for a new product"}],
        "paging": {"returned": 1, "from": 0, "to": 1, "total": 1},
    });
    let progress = json!({"event": "end", "data": (JOB.example)().to_string()});
    let event = object()
        .about("An event of the stream.")
        .required("event", one_of(&["progress", "end"]))
        .required("data", about(any_text(), "A `Job`, as JSON."));
    vec![
        list("/api/job/list", handlers::list_jobs, &JOBS, "Lists jobs"),
        read("/api/job/{id}", handlers::get_job, &JOBS, "Reads a job").section("decisions, section 5"),
        put("/api/job/cancel/{id}", control::cancel_job, "Cancels a job")
            .says("What is done stays done; 409 where it has ended.")
            .section("decisions, section 5")
            .record(200, "The job.", &JOBS)
            .refuses(&[409]),
        answers_job(
            put("/api/job/retry/{id}", control::retry_job, "Does again what failed of a job"),
            "Item errors and failed chunks are executed again, as a new acceptance of the same job; 409 where it has not \
             ended, or nothing failed.",
        ),
        post("/api/job/{id}/error/list", item_error::list_item_errors, "Lists the refused items of a job")
            .section("decisions, section 5")
            .schema(
                "ItemErrorQuery",
                object()
                    .optional("limit", default(integer(0..=10_000), 10_000))
                    .optional("offset", default(integer(0..=i64::MAX), 0)),
            )
            .schema(
                "ItemError",
                object()
                    .required("index", any_integer())
                    .required("key", or_null(any_text()))
                    .required("code", any_text())
                    .required("message", any_text())
                    .explain(&[
                        ("index", "Its position in what was sent, from 0."),
                        ("key", "What it calls itself: an id, a `productSku`."),
                        ("code", "Why, for programs."),
                        ("message", "Why, for people."),
                    ]),
            )
            .schema(
                "ItemErrorPage",
                object()
                    .required("results", array_of(named("ItemError")))
                    .required("paging", named("Paging")),
            )
            .form(JSON, named("ItemErrorQuery"), Some(json!({"limit": 100, "offset": 0})))
            .answers(200, "The refused items, by position.", named("ItemErrorPage"), Some(errors)),
        get("/api/job/{id}/events", events::follow_job, "Follows a job")
            .says(
                "Server-sent events: `progress` with the job at once and whenever it moves on; the last one is `end`. The \
                 data of each is a `Job`.",
            )
            .schema("JobEvent", event)
            .section("decisions, section 5")
            .answers_as(200, "Events, until the job ends.", "text/event-stream", named("JobEvent"), Some(progress)),
    ]
}

/// An operation that starts a job, and answers with it.
pub(super) fn answers_job(operation: Operation, says: &str) -> Operation {
    operation
        .says(says)
        .section("decisions, section 5")
        .record(200, "The job: ended, or answered at once without being asked to wait.", &JOBS)
        .record(202, "The job: accepted, and not ended yet.", &JOBS)
        .with(&["Location"])
}

/// Jobs.
pub(super) const JOB: Described = Described {
    resource: &JOBS,
    about: "Recorded work: a bulk change or a sync. `succeeded` with `progress.failed` above 0 is a job whose good items \
            are in, and whose bad ones are listed.",
    fields: &[
        ("eshop", "The e-shop that it is for, where it is for one."),
        ("progress", "Counts of its items; `changed` counts what was created or altered."),
        ("attempts", "Executions that had to be repeated."),
        ("error", "Why it failed."),
        ("createdBy", "Who asked for it."),
        ("requestId", "The request that asked for it."),
    ],
    shapes: &[],
    example: || {
        json!({
            "id": SYNC, "kind": "product.sync", "state": "succeeded", "organisation": ORGANISATION, "eshop": ESHOP,
            "progress": {"total": 3, "done": 3, "changed": 2, "unchanged": 0, "failed": 1}, "attempts": 0,
            "error": null, "createdBy": {"type": "token", "id": TOKEN, "name": "connector"},
            "requestId": "0192a1b2-7000-7000-8000-00000000000e", "createdAt": CREATED, "startedAt": CREATED,
            "finishedAt": CHANGED, "changedAt": CHANGED,
        })
    },
};
