//! What must happen now and then: partitions ahead, history past its age, leftovers.

use longshore_shared::account::token;
use longshore_shared::catalog::image;
use longshore_shared::job::{receiving, retention};
use longshore_shared::platform::{history, idempotency, objects};
use longshore_shared::webhook::delivery;

use crate::context::WorkerContext;

/// The tasks, by name.
pub const TASKS: &[&str] = &[PARTITIONS, RECEIVING, JOBS, IDEMPOTENCY, DELIVERIES, LOGINS, image::REMOVAL];

const PARTITIONS: &str = "partitions";
const RECEIVING: &str = "receiving";
const JOBS: &str = "jobs";
const IDEMPOTENCY: &str = "idempotency";
const DELIVERIES: &str = "deliveries";
const LOGINS: &str = "logins";

/// Rows that one statement removes.
const BATCH: i64 = 10_000;
/// Jobs that one statement removes: each may have thousands of chunks and item errors.
const JOBS_BATCH: i64 = 500;

/// Does one of them.
pub async fn run(context: WorkerContext, task: String) {
    let db = &context.services.db.main;
    let done = match task.as_str() {
        PARTITIONS => history::keep(db).await,
        RECEIVING => receiving::expire(db).await,
        JOBS => retention::expire(db, JOBS_BATCH).await,
        IDEMPOTENCY => idempotency::expire(db, BATCH).await,
        DELIVERIES => delivery::cancel_orphans(db).await,
        image::REMOVAL => objects::remove_due(db, &context.services.objects).await,
        LOGINS => token::expire(db, BATCH).await,
        other => {
            tracing::warn!(task = other, "there is no such upkeep");
            return;
        }
    };
    match done {
        Ok(0) => {}
        Ok(count) => tracing::info!(task, count, "upkeep done"),
        Err(error) => tracing::warn!(task, %error, "upkeep failed; it is due again in a minute"),
    }
}
