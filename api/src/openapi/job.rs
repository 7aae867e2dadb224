//! Jobs and queues.

use longshore_shared::job::waiting::REASONS;
use longshore_shared::kernel::queue::Queue;
use longshore_shared::kernel::queue::control::MAX_CONCURRENCY;
use longshore_shared::list::fields::job::JOB as JOBS;
use longshore_shared::operate::standing::Verdict;
use serde_json::json;

use super::example::{CHANGED, CREATED, ESHOP, JOB as SYNC, ORGANISATION, TOKEN};
use super::operation::{JSON, Operation, get, list, post, put, read};
use super::record::Described;
use super::schema::{
    Said, Shape, any_integer, any_number, any_text, anything, array_of, boolean, default, id, integer, named,
    object, one_of, or_null, timestamp,
};
use crate::routes::job::{control, events, item_error, queue, read as handlers};

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let errors = json!({
        "results": [{"index": 2, "line": 4, "key": "MUG-3", "code": "required", "message": "name is required for a new product"}],
        "paging": {"returned": 1, "from": 0, "to": 1, "total": 1},
    });
    let progress = format!("event: end\ndata: {}\n\n", (JOB.example)());
    let mut operations = vec![
        list("/api/job/list", handlers::list_jobs, &JOBS, "Lists jobs"),
        read("/api/job/{id}", handlers::get_job, &JOBS, "Reads a job"),
        put("/api/job/cancel/{id}", control::cancel_job, "Cancels a job")
            .says("What is done stays done; 409 where it has ended.")
            .record(200, "The job.", &JOBS)
            .refuses(&[409]),
        answers_job(
            put("/api/job/retry/{id}", control::retry_job, "Does again what failed of a job"),
            "Refused items and failed chunks are executed again, as a new acceptance of the same job; not those items that \
             stand in it twice, or that the partner refused. 409 where it has not ended or was cancelled, where there is \
             nothing to execute again, or where an equal one waits.",
        ),
        post("/api/job/{id}/error/list", item_error::list_item_errors, "Lists the refused items of a job")
            .says(
                "Beside them stand items that were taken, and that there is something to tell of: those with the code \
                 `notice` (say, a weight that was rounded) or `drift` (a stock that somebody altered at the partner, and that \
                 is sent again). `progress.failed` does not count them. The first 10,000 of a job are kept, and only these can be \
                 done again; `progress.failed` counts all that were refused.",
            )
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
                    .required("line", or_null(any_integer()))
                    .required("key", or_null(any_text()))
                    .required("code", any_text())
                    .required("message", any_text())
                    .explain(&[
                        ("index", "Its position in what was sent, from 0."),
                        ("line", "Its line in the NDJSON file that was sent, from 1; else null."),
                        ("key", "What it calls itself: an id, a `productSku`."),
                        ("code", "Why, for programs; `notice` and `drift`: it was taken all the same."),
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
            .answers(200, "The items, by position.", named("ItemErrorPage"), Some(errors)),
        get("/api/job/{id}/events", events::follow_job, "Follows a job")
            .says(
                "Server-sent events: `progress` with the job at once and whenever it moves on; the last one is `end`. The \
                 data of each is a `Job`.",
            )
            .answers_as(200, "Events, until the job ends.", "text/event-stream", anything(), Some(progress.into())),
    ];
    operations.extend(queues());
    operations
}

/// The operations on queues.
fn queues() -> [Operation; 4] {
    let standing = json!({
        "name": "chunk", "state": "working", "paused": false, "resumesAt": null, "concurrency": null, "reachable": true,
        "depth": 12, "inFlight": 4, "oldestSeconds": 1.5, "workers": 2,
        "recorded": {"open": 12, "running": 4, "due": 8, "oldestDueSeconds": 1.6},
    });
    let wishes = |operation: Operation| {
        operation
            .schema("QueueWish", wish())
            .answers(
                200,
                "What is wished of the queue; each worker obeys within seconds.",
                named("QueueWish"),
                Some(json!({"name": "lane", "paused": false, "resumesAt": null, "concurrency": 16})),
            )
            .refuses(&[404])
    };
    let to_update = object()
        .about("What is wished of a queue.")
        .required("concurrency", or_null(integer(1..=i64::from(MAX_CONCURRENCY))))
        .explain(&[CONCURRENCY]);
    [
        get("/api/queue", queue::list_queues, "Tells how the queues stand")
            .says("Also while Redis is away or full: what only Redis knows is null while it cannot be reached.")
            .schema("Queue", stands())
            .schema(
                "QueueOverview",
                redis(object()).required("queues", array_of(named("Queue"))),
            )
            .answers(
                200,
                "Every queue.",
                named("QueueOverview"),
                Some(json!({
                    "redis": "up", "redisReason": null,
                    "redisMemory": {"usedBytes": 1_363_149, "maxBytes": 67_108_864}, "queues": [standing],
                })),
            ),
        wishes(put("/api/queue/{name}", queue::update_queue, "Changes how much of a queue is done at once"))
            .body("QueueToUpdate", to_update, json!({"concurrency": 16}))
            .refuses(&[400]),
        wishes(put("/api/queue/{name}/pause", queue::pause_queue, "Pauses a queue"))
            .says(
                "Nothing is begun any more; what runs goes on. A pause of `upkeep`, which stops retention, scheduled syncs and \
                 charts, ends by itself after an hour.",
            ),
        wishes(put("/api/queue/{name}/resume", queue::resume_queue, "Resumes a queue")),
    ]
}

const CONCURRENCY: (&str, &str) =
    ("concurrency", "What each worker does at once; null is what it was started with.");

/// The settings of a queue that an operator can change.
fn wish() -> Shape {
    let names = Queue::ALL.map(Queue::name);
    object()
        .about("What is wished of a queue.")
        .required("name", one_of(&names))
        .required("paused", boolean())
        .required("resumesAt", or_null(timestamp()))
        .required("concurrency", or_null(any_integer()))
        .explain(&[
            CONCURRENCY,
            (
                "resumesAt",
                "When the pause ends by itself; null where it lasts until somebody resumes the queue.",
            ),
        ])
}

fn stands() -> Shape {
    let recorded = object()
        .required("open", or_null(any_integer()))
        .required("running", any_integer())
        .required("due", or_null(any_integer()))
        .required("oldestDueSeconds", or_null(any_number()))
        .explain(&[
            ("open", "Not finished; null where only the queue knows."),
            ("running", "Of these, held by a worker at this moment."),
            ("due", "Of these, what a worker could begin now; at most 3,200 chunks, or 10,000 webhooks, are counted."),
            ("oldestDueSeconds", "For how long the oldest of these has been due; null where nothing is."),
        ]);
    wish()
        .about("How a queue stands, and what is wished of it.")
        .required("state", one_of(&Verdict::WORDS))
        .required("reachable", boolean())
        .required("depth", or_null(any_integer()))
        .required("inFlight", or_null(any_integer()))
        .required("oldestSeconds", or_null(any_number()))
        .required("workers", or_null(any_integer()))
        .required("recorded", recorded.called("QueueRecorded"))
        .explain(&[
            (
                "state",
                "`idle`: nothing to do, neither on the queue nor recorded; `working`; `waiting`: workers take nothing of what \
                 has been due for over 10 seconds; `not_due`: what is open waits for an earlier job, a partner, or its next \
                 attempt; `paused`; `no_worker`; `redis_down`: Redis cannot be reached or refuses writes, and what becomes \
                 due waits in the database.",
            ),
            ("reachable", "Whether Redis, which carries it, can be reached."),
            ("depth", "Entries on it: waiting and running."),
            ("inFlight", "Those of them that a worker holds."),
            ("oldestSeconds", "How long its oldest entry has been there; null where there is none."),
            ("workers", "Workers that read it, paused ones included."),
            ("recorded", "What the database has recorded of it."),
        ])
}

/// Members about the state of Redis.
pub(super) fn redis(shape: Shape) -> Shape {
    let memory =
        object().required("usedBytes", any_integer()).required("maxBytes", or_null(any_integer())).explain(
            &[("usedBytes", "`used_memory`."), ("maxBytes", "`maxmemory`; null where there is no limit.")],
        );
    shape
        .required("redis", one_of(&["up", "down"]))
        .required("redisReason", or_null(one_of(&["unreachable", "refuses_writes"])))
        .required("redisMemory", or_null(memory.called("RedisMemory")))
        .explain(&[
            ("redis", "`up` where Redis takes a write. Requests are accepted without it."),
            ("redisReason", "Why it is down; a full Redis refuses writes, and still answers."),
            ("redisMemory", "What it holds; null where it does not say."),
        ])
}

/// An operation that starts a job, and answers with it.
pub(super) fn answers_job(operation: Operation, says: &str) -> Operation {
    operation
        .says(says)
        .record(200, "The job: ended, or answered at once without being asked to wait.", &JOBS)
        .record(202, "The job: accepted, and not ended yet.", &JOBS)
        .with(&["Location"])
}

/// What a job waits for.
fn waits_for() -> Said {
    object()
        .about("What a job waits for.")
        .required("reason", one_of(REASONS))
        .required("job", or_null(id()))
        .required("eshop", or_null(id()))
        .required("since", timestamp())
        .explain(&[
            (
                "reason",
                "`earlier_job`: a sync of the same e-shop that was accepted before it, or a pull of the same source. \
                 `partner`: the time at which its partner may be called again. `turn`: as much of its organisation as its share is goes first. `paused`: a queue that an operator paused.",
            ),
            ("job", "The earlier job; null for other reasons."),
            ("eshop", "The e-shop of the earlier job, or the one whose partner it is; else null."),
            ("since", "Since when it has waited for that."),
        ])
        .called("JobWaitsFor")
}

/// Jobs.
pub(super) const JOB: Described = Described {
    resource: &JOBS,
    about: "Recorded work: a bulk change, a sync, or sending deliveries again. `succeeded` with `progress.failed` above 0 is a job whose good items \
            are in, and whose bad ones are listed.",
    fields: &[
        (
            "organisation",
            "The organisation that it is for; null where it is for several, and shown to whoever may see all of these.",
        ),
        ("eshop", "The e-shop that it is for, where it is for one."),
        (
            "outcome",
            "What became of its items, where it succeeded: `complete` (none was refused), `partial`, or `nothing` (every one was \
             refused); else null.",
        ),
        ("progress", "Counts of its items; `changed` counts what was created or altered."),
        (
            "waitsFor",
            "What it waits for; null where it runs, has ended, or waits only for a free worker or its next attempt.",
        ),
        (
            "result",
            "What a job that sends deliveries again (`webhook.recover`, `webhook.redeliver`) has done so far: waiting deliveries \
             that were `released`, so that they are due at once, and ended ones that were `resent`. Null of every other kind.",
        ),
        ("attempts", "The most executions that one of its chunks took: 1 where nothing had to be repeated."),
        ("error", "Why it failed."),
        ("createdBy", "Who asked for it."),
        ("requestId", "The request that asked for it."),
    ],
    shapes: &[("waitsFor", waits_for)],
    example: || {
        json!({
            "id": SYNC, "kind": "product.sync", "state": "succeeded", "organisation": ORGANISATION, "eshop": ESHOP,
            "outcome": "partial",
            "progress": {"total": 3, "done": 3, "changed": 2, "unchanged": 0, "failed": 1}, "result": null, "waitsFor": null, "attempts": 1,
            "error": null, "createdBy": {"type": "token", "id": TOKEN, "name": "connector"},
            "requestId": "0192a1b2-7000-7000-8000-00000000000e", "createdAt": CREATED, "startedAt": CREATED,
            "finishedAt": CHANGED, "changedAt": CHANGED, "version": 3,
        })
    },
};
