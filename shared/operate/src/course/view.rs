//! The course of jobs and workers as JSON (`docs/reference/jobs.md#activity`).

use longshore_kernel::access::Scope;
use longshore_kernel::activity::Span;
use longshore_kernel::database::Database;
use longshore_kernel::problem::Problem;
use serde_json::{Value, json};

use super::{OfKind, OfWorker, Runs, by_kind, by_worker};
use longshore_kernel::answer::moment;

/// The jobs of each kind in a span (`GET /api/job/activity/{span}`).
pub async fn jobs(db: &Database, scope: &Scope, span: &str) -> Result<String, Problem> {
    let found = by_kind(db, scope, read(span)?).await?;
    let of =
        |kind: &OfKind| json!({"kind": kind.kind, "steps": kind.jobs.iter().map(step).collect::<Vec<_>>()});
    let kinds: Vec<Value> = found.kinds.iter().map(of).collect();
    Ok(json!({"from": moment(found.steps.from), "stepMinutes": found.steps.minutes, "kinds": kinds})
        .to_string())
}

fn step(jobs: &Runs) -> Value {
    json!({"succeeded": jobs.good, "failed": jobs.bad, "meanMs": jobs.mean_ms, "slowestMs": jobs.slowest_ms})
}

/// What the workers did in a span (`GET /api/worker/activity/{span}`).
pub async fn workers(db: &Database, scope: &Scope, span: &str) -> Result<String, Problem> {
    let found = by_worker(db, scope, read(span)?).await?;
    let workers: Vec<Value> = found.workers.iter().map(of_worker).collect();
    Ok(json!({"from": moment(found.steps.from), "stepMinutes": found.steps.minutes, "workers": workers})
        .to_string())
}

fn of_worker(worker: &OfWorker) -> Value {
    let steps = worker.jobs.iter().zip(&worker.calls).zip(&worker.memory);
    let steps = steps.map(|((jobs, calls), memory)| {
        json!({
            "jobs": jobs.good + jobs.bad, "failedJobs": jobs.bad, "calls": calls.good + calls.bad, "failedCalls": calls.bad,
            "memoryBytes": memory,
        })
    });
    json!({"name": worker.name, "lastSeenAt": moment(worker.last), "steps": steps.collect::<Vec<_>>()})
}

fn read(span: &str) -> Result<Span, Problem> {
    span.parse().map_err(|_| Problem::not_found("span of time"))
}
