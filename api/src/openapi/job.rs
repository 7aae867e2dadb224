//! Jobs and queues.

use longshore_domain::job::control::{bulk, release};
use longshore_domain::job::item_error as item_errors;
use longshore_domain::job::preview::application;
use longshore_domain::job::waiting::REASONS;
use longshore_domain::list::fields::audit::CHANGE as CHANGES;
use longshore_domain::list::fields::job::JOB as JOBS;
use longshore_domain::list::fields::preview::PREVIEW as PREVIEWED;
use longshore_domain::standing::Verdict;
use longshore_domain::standing::queue as operated;
use longshore_kernel::input::{Rule, Schema};
use longshore_kernel::queue::Queue;
use serde_json::{Value, json};

use super::example::{ANY, CHANGED, JOB as SYNC, PRODUCT, job};
use super::operation::{JSON, Operation, list, operation, read};
use super::record::Described;
use super::schema::{
    Said, Shape, accepted, any_integer, any_number, any_object, any_text, anything, array_of, body_of,
    boolean, either, id, integer, members, named, object, one_of, or_null, timestamp,
};
use crate::routes::job::{control, events, item_error, queue, read as handlers};

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let errors = json!({
        "results": [{"index": 2, "line": 4, "key": "MUG-3", "code": "required", "message": "name is required for a new product"}],
        "paging": {"returned": 1, "from": 0, "to": 1, "total": 1, "next": null},
    });
    let progress = format!("event: end\ndata: {}\n\n", (JOB.example)());
    let mut operations = vec![
        list(handlers::list_jobs, &JOB, "Lists jobs"),
        read(handlers::get_job, &JOB, "Reads a job")
            .says("With `wait`, when the job has ended, or after so many seconds.")
            .query("wait", integer(0..=60), None),
        operation(control::cancel_job, "Cancels a job")
            .says("Changes that were made are kept. 409 if the job has ended.")
            .record(200, "The job.", &JOB)
            .refuses(&[409]),
        answers_job(
            operation(control::retry_job, "Retries a job"),
            "Executes the refused items and failed chunks again, as a new acceptance of the same job. Items that would end in the same way are not. 409 if the job has not ended or was cancelled, if there is nothing to retry, or if an identical job is waiting.",
        ),
        controlled(
            operation(control::cancel_jobs, "Cancels jobs"),
            "Cancels those that have not ended, in one transaction. Changes that were made are kept.",
        ),
        controlled(
            operation(control::retry_jobs, "Retries jobs"),
            "Retries each job, in the order of the ids. A job that cannot be retried is left.",
        ),
        list(handlers::list_changes, &CHANGE, "Lists what a job changed"),
        list(handlers::list_previewed_items, &PREVIEW, "Lists what a dry run would do"),
        answers_job(
            operation(control::apply_job, "Applies a dry run"),
            "Once, within an hour: a new job of the kind that it tried. An item whose record has changed since is refused: `changed_since`.",
        )
        .schema("Application", body_of(&application::body()).explain(&[("force", "Does not compare.")]))
        .form(JSON, named("Application"), Some(json!({})))
        .refuses(&[409]),
        answers_job(
            operation(control::release_job, "Releases what the guard of a sync has withheld"),
            "409 `count_differs` if that is more than `upTo`, 409 if it is nothing.",
        )
        .body("Release", body_of(&release::body()), json!({"upTo": 9120}))
        .refuses(&[409]),
        operation(item_error::list_item_errors, "Lists the item errors of a job")
            .says(
                "The list also has notices about items that were accepted, with the code `notice` or `drift` (a stock was changed at the partner and is sent again), which `progress.failed` does not count. The first 10,000 of a job are kept, and only these can be retried.",
            )
            .schema(
                "ItemErrorQuery",
                body_of(&item_errors::query()),
            )
            .schema(
                "ItemError",
                object()
                    .required("index", any_integer())
                    .required("line", or_null(any_integer()))
                    .required("key", or_null(any_text()))
                    .required("code", any_text())
                    .required("message", any_text())
                    .explain(&[
                        ("index", "The position of the item in the request, from 0."),
                        ("line", "The line in the NDJSON body, from 1; null for other requests."),
                        ("key", "The id or the `productSku` of the item."),
                        ("code", "The reason, for programs. With `notice` and `drift`, the item was accepted."),
                        ("message", "The reason, for people."),
                    ]),
            )
            .schema(
                "ItemErrorPage",
                object()
                    .required("results", array_of(named("ItemError")))
                    .required("paging", named("Paging")),
            )
            .form(JSON, named("ItemErrorQuery"), Some(json!({"limit": 100})))
            .answers(200, "The item errors, ordered by position.", named("ItemErrorPage"), Some(errors)),
        operation(item_error::group_item_errors, "Counts the item errors of a job by code and field")
            .schema(
                "ItemErrorGroup",
                object()
                    .required("code", any_text())
                    .required("field", or_null(any_text()))
                    .required("count", any_integer())
                    .required("example", named("ItemError"))
                    .explain(&[("field", "Such as `items[].quantity`.")]),
            )
            .schema(
                "ItemErrorGroups",
                object()
                    .required("results", array_of(named("ItemErrorGroup")))
                    .required("kept", any_integer())
                    .required("refused", any_integer()),
            )
            .answers(200, "The largest groups.", named("ItemErrorGroups"), None),
        operation(item_error::get_refused_rows, "Reads the refused rows of a job")
            .says("As they were sent, with `_line`, `_code` and `_message`. `Longshore-Rows: 10000 of 12345` if not all are kept.")
            .answers_as(200, "The rows.", "application/x-ndjson", any_text(), None)
            .or_as(200, "text/csv", any_text()),
        operation(events::follow_job, "Streams the progress of a job")
            .says(
                "Sends server-sent events: `progress` at once and after each change, and `end` as the last one. The data of each event is a `Job`.",
            )
            .answers_as(200, "Events until the job ends.", "text/event-stream", anything(), Some(progress.into())),
    ];
    operations.extend(queues());
    operations
}

/// The body of an operation on many records that are named by ids or by criteria; the last form is the same in all.
pub(super) fn chosen(operation: Operation, name: &str, rule: &impl Rule, example: Value) -> Operation {
    let Schema::Either(forms) = rule.schema() else { return operation };
    let [ids, by_ids, by_criteria] = &*forms else { return operation };
    let by_criteria = members(by_criteria).about("All records that match.").explain(&[
        ("criteria", "As in the list of these records."),
        ("expect", "Another count is 409 `count_differs`, and nothing is done."),
        ("all", "Must be true without conditions."),
    ]);
    let forms = either([
        accepted(ids),
        members(by_ids).called(&format!("{name}ByIds")),
        by_criteria.called(&format!("{name}ByCriteria")),
    ]);
    operation.body(name, forms, example).refuses(&[409])
}

/// An operation on several jobs.
fn controlled(operation: Operation, says: &str) -> Operation {
    let left = object()
        .about("A job that was left as it is.")
        .required("id", id())
        .required("code", one_of(&bulk::codes()))
        .required("message", any_text())
        .explain(&[("code", "The reason, for programs."), ("message", "The reason, for people.")])
        .called("JobLeft");
    chosen(operation, "JobsChosen", &bulk::body(), json!([SYNC]))
        .says(says)
        .says("By criteria: the 500 newest at most.")
        .schema(
            "JobsControlled",
            object()
                .required("done", array_of(id()))
                .required("left", either([array_of(left.clone()), any_integer()]))
                .optional("refused", array_of(left))
                .explain(&[
                    ("done", "The jobs that were changed."),
                    ("left", "The jobs that were left as they are; by criteria, how many."),
                    ("refused", "By criteria, those that were tried and left."),
                ]),
        )
        .answers(
            200,
            "What became of each job.",
            named("JobsControlled"),
            Some(json!({"done": [SYNC], "left": []})),
        )
}

/// The operations on queues.
fn queues() -> [Operation; 4] {
    let standing = json!({
        "name": "chunk", "state": "working", "paused": false, "resumesAt": null, "concurrency": null, "reachable": true,
        "depth": 12, "inFlight": 4, "oldestSeconds": 1.5, "workers": 2,
        "recorded": {"open": 12, "running": 4, "due": 8, "oldestDueSeconds": 1.6}, "pause": null,
    });
    let wishes = |operation: Operation| {
        operation.schema("QueueWish", wish()).answers(
            200,
            "The settings of the queue. Workers apply them within seconds.",
            named("QueueWish"),
            Some(json!({"name": "lane", "paused": false, "resumesAt": null, "concurrency": 16})),
        )
    };
    let to_update =
        body_of(&operated::body_to_update()).about("The settings of a queue.").explain(&[CONCURRENCY]);
    let to_pause = body_of(&operated::body_to_pause())
        .about("Why the queue is paused; the body may be absent.")
        .explain(&[("reason", "Kept in the audit, and shown while the queue is paused.")]);
    [
        operation(queue::list_queues, "Reads the state of all queues")
            .says("Values that only Redis has are null while it cannot be reached.")
            .schema("Queue", queue_state())
            .schema(
                "QueueOverview",
                redis(object()).required("queues", array_of(named("Queue"))),
            )
            .answers(
                200,
                "The state of every queue.",
                named("QueueOverview"),
                Some(json!({
                    "redis": "up", "redisReason": null,
                    "redisMemory": {"usedBytes": 1_363_149, "maxBytes": 67_108_864}, "queues": [standing],
                })),
            ),
        wishes(operation(queue::update_queue, "Changes the concurrency of a queue"))
            .body("QueueToUpdate", to_update, json!({"concurrency": 16})),
        wishes(operation(queue::pause_queue, "Pauses a queue"))
            .body("QueueToPause", to_pause, json!({"reason": "the destination is being moved"}))
            .says(
                "Workers start no more work of the queue; running work continues. A pause of `upkeep` also stops retention, scheduled syncs and charts. It ends automatically after one hour.",
            ),
        wishes(operation(queue::resume_queue, "Resumes a queue")),
    ]
}

const CONCURRENCY: (&str, &str) =
    ("concurrency", "How much each worker executes at once; null means the setting of the worker.");

/// The settings of a queue that an operator can change.
fn wish() -> Shape {
    let names = Queue::ALL.map(Queue::name);
    object()
        .about("The settings of a queue.")
        .required("name", one_of(&names))
        .required("paused", boolean())
        .required("resumesAt", or_null(timestamp()))
        .required("concurrency", or_null(any_integer()))
        .explain(&[
            CONCURRENCY,
            ("resumesAt", "When the pause ends automatically; null if the queue must be resumed."),
        ])
}

fn queue_state() -> Shape {
    let recorded = object()
        .required("open", or_null(any_integer()))
        .required("running", any_integer())
        .required("due", or_null(any_integer()))
        .required("oldestDueSeconds", or_null(any_number()))
        .explain(&[
            ("open", "Unfinished work: chunks, webhooks with due deliveries, or warehouses whose orders wait for a call or its answer; null if only the queue knows it."),
            ("running", "Open work that a worker is executing now."),
            (
                "due",
                "Open work that a worker could start now. Counts at most 3,200 chunks or 10,000 webhooks.",
            ),
            ("oldestDueSeconds", "How long the oldest due work has been waiting; null if nothing is due."),
        ]);
    let pause = object()
        .required("by", any_text())
        .required("at", timestamp())
        .required("reason", or_null(any_text()))
        .about("Who paused a queue, when, and why.");
    wish()
        .about("The state and the settings of a queue.")
        .required("state", one_of(&Verdict::WORDS))
        .required("reachable", boolean())
        .required("depth", or_null(any_integer()))
        .required("inFlight", or_null(any_integer()))
        .required("oldestSeconds", or_null(any_number()))
        .required("workers", or_null(any_integer()))
        .required("recorded", recorded.called("QueueRecorded"))
        .required("pause", or_null(pause.called("QueuePause")))
        .explain(&[
            (
                "state",
                "`idle`: there is no work. `working`: work is in progress. `waiting`: work has been due for over 10 seconds, but workers do not start it. `not_due`: open work waits for an earlier job, a partner or its next attempt. `paused`: an operator paused the queue. `no_worker`: no worker reads the queue. `redis_down`: Redis cannot be reached or refuses writes; due work waits in the database.",
            ),
            ("reachable", "Whether Redis can be reached."),
            ("depth", "Entries on the queue, waiting and running."),
            ("inFlight", "Entries that a worker is executing."),
            ("oldestSeconds", "Age of the oldest entry; null if there is none."),
            ("workers", "Workers that read the queue, including paused ones."),
            ("recorded", "The work of the queue that is recorded in the database."),
        ])
}

/// Members about the state of Redis.
pub(super) fn redis(shape: Shape) -> Shape {
    let memory = object()
        .required("usedBytes", any_integer())
        .required("maxBytes", or_null(any_integer()))
        .explain(&[("usedBytes", "`used_memory`."), ("maxBytes", "`maxmemory`; null if there is no limit.")]);
    shape
        .required("redis", one_of(&["up", "down"]))
        .required("redisReason", or_null(one_of(&["unreachable", "refuses_writes"])))
        .required("redisMemory", or_null(memory.called("RedisMemory")))
        .explain(&[
            ("redis", "`up` if Redis accepts writes. The service accepts requests without Redis."),
            ("redisReason", "Why Redis is down. A full Redis answers, but refuses writes."),
            ("redisMemory", "The memory of Redis; null if Redis does not report it."),
        ])
}

/// An operation that starts a job, and answers with it.
pub(super) fn answers_job(operation: Operation, says: &str) -> Operation {
    operation
        .says(says)
        .record(200, "The job: ended, or returned without waiting.", &JOB)
        .record(202, "The job: accepted, not ended.", &JOB)
        .with(&["Location"])
}

/// What a dry run found.
fn found() -> Said {
    let names = [
        "created",
        "updated",
        "unchanged",
        "refused",
        "deactivated",
        "zeroed",
        "booked",
        "waiting",
        "deliveries",
    ];
    names.into_iter().fold(object(), |shape, name| shape.required(name, any_integer())).called("JobPreview")
}

/// What a job waits for.
fn waits_for() -> Said {
    object()
        .about("What a job waits for.")
        .required("reason", one_of(REASONS))
        .required("job", or_null(id()))
        .required("eshop", or_null(id()))
        .required("since", timestamp())
        .required("until", or_null(timestamp()))
        .explain(&[
            (
                "reason",
                "`earlier_job`: a sync of the same e-shop that was accepted earlier, or a pull of the same source. `partner`: the time when the partner may be called again. `turn`: other jobs of the organisation use its share of the workers. `paused`: an operator paused the queue.",
            ),
            ("job", "The earlier job; null for other reasons."),
            ("eshop", "The e-shop of the earlier job or of the partner; otherwise null."),
            ("since", "When the wait began."),
            ("until", "When the partner may be called again; null for other reasons."),
        ])
        .called("JobWaitsFor")
}

/// Jobs.
pub(super) const JOB: Described = Described {
    resource: &JOBS,
    about: "Recorded work that a worker executes: a bulk operation, a sync or a redelivery. If a job has `succeeded` and `progress.failed` is above 0, the valid items were stored and the others are item errors.",
    fields: &[
        (
            "organisation",
            "The organisation of the job; null if the job is for several. Such a job is visible to callers who can see all of them.",
        ),
        ("eshop", "The e-shop of the job, if it is for one."),
        (
            "outcome",
            "The result of a job that succeeded: `complete` (no item was refused), `partial` (some were refused) or `nothing` (all were refused). Null for other jobs.",
        ),
        ("progress", "Counts of the items. `changed` counts created and changed records."),
        (
            "waitsFor",
            "What the job waits for. Null if it is running, has ended, or waits only for a free worker or its next attempt.",
        ),
        (
            "result",
            "The counts of `webhook.recover`, `webhook.redeliver` and `webhook.replay` so far: `released` counts waiting deliveries that are now due, `resent` counts ended deliveries that are sent again. Null for other kinds of jobs.",
        ),
        ("criteria", "Of a bulk by criteria, what its records matched."),
        ("of", "Of a `preview`, the kind that it tries."),
        ("preview", "Of a `preview`, what it found so far. `booked` and `waiting` are at most."),
        (
            "connection",
            "What `integration.test` or `wms.test` found out: `works` says whether the connection works, `message` what happened, `durationMs` how long the call took. Null until it has ended, and for other kinds of jobs.",
        ),
        (
            "attempts",
            "The highest number of executions of one chunk; 1 if nothing was repeated. One whose process died is not counted.",
        ),
        ("startedAt", "The first start of the job."),
        (
            "attemptStartedAt",
            "When the last attempt began: `startedAt`, or when the job went on after a wait in which nothing of it ran.",
        ),
        ("error", "Why the job failed, or why it was cancelled if nobody cancelled it."),
        ("createdBy", "Who made the request."),
        ("requestId", "The id of the request."),
    ],
    shapes: &[("waitsFor", waits_for), ("of", || named("JobKind")), ("preview", found)],
    example: job,
};

/// What jobs changed.
pub(super) const CHANGE: Described = Described {
    resource: &CHANGES,
    about: "What a job changed of a record.",
    fields: &[("key", "The SKU or the order number that the record has now.")],
    shapes: &[("changes", any_object)],
    example: || {
        json!({
            "id": ANY, "at": CHANGED, "entity": {"type": "product", "id": PRODUCT}, "key": "MUG-1",
            "action": "product.update", "changes": {"weight": [320, 330]},
        })
    },
};

/// What dry runs would do.
pub(super) const PREVIEW: Described = Described {
    resource: &PREVIEWED,
    about: "What a dry run would do to an item.",
    fields: &[("id", "The record; null where there is none yet.")],
    shapes: &[("changes", any_object)],
    example: || {
        json!({
            "index": 0, "line": 2, "key": "MUG-1", "would": "update", "id": PRODUCT, "changes": {"weight": [320, 330]},
            "code": null, "message": null,
        })
    },
};
