//! Periodic work: future partitions, removal of old history, clean-up.

use std::time::{Duration, Instant};

use longshore_domain::account::{session, token};
use longshore_domain::attention;
use longshore_domain::catalog::image;
use longshore_domain::expedition::{news, silence};
use longshore_domain::job::{control, mark, receiving, retention, withheld};
use longshore_domain::partner::send_out::changes;
use longshore_domain::partner::{block, clock};
use longshore_domain::standing::backlog;
use longshore_domain::warehouse::stock_advice::end;
use longshore_domain::webhook::{delivery, reader};
use longshore_kernel::activity::Subject;
use longshore_kernel::cause::causes;
use longshore_kernel::problem::Problem;
use longshore_kernel::{history, idempotency, objects};

use crate::context::WorkerContext;

/// The names of the tasks.
pub const TASKS: &[&str] = &[
    PARTITIONS,
    RECEIVING,
    JOBS,
    CANCELLED,
    MARKS,
    IDEMPOTENCY,
    NEWS,
    DELIVERIES,
    READERS,
    LOGINS,
    PARTNERS,
    COMPARISONS,
    BLOCKS,
    ACTIVITY,
    ADVICES,
    SILENCE,
    image::REMOVAL,
];

const PARTITIONS: &str = "partitions";
const RECEIVING: &str = "receiving";
const JOBS: &str = "jobs";
const CANCELLED: &str = "cancelled";
const MARKS: &str = "marks";
const IDEMPOTENCY: &str = "idempotency";
const NEWS: &str = "news";
const DELIVERIES: &str = "deliveries";
const READERS: &str = "readers";
const LOGINS: &str = "logins";
const PARTNERS: &str = "partners";
const COMPARISONS: &str = "comparisons";
const BLOCKS: &str = "blocks";
const ACTIVITY: &str = "activity";
const ADVICES: &str = "advices";
const SILENCE: &str = "silence";

/// Rows that one statement removes.
const BATCH: i64 = 10_000;
/// Jobs that one statement removes: each may have thousands of chunks and item errors.
const JOBS_BATCH: i64 = 500;

/// A call may take back more than this, but takes back less only when nothing is left.
const CANCELLED_BATCH: i64 = 1;

/// How long a task that removes batches continues: it is due again in a minute, and others wait for their
/// turn.
const WHILE: Duration = Duration::from_secs(20);

/// Runs the named task.
pub async fn run(context: WorkerContext, task: String) {
    let db = &context.services.db.main;
    let started = Instant::now();
    let done = match task.as_str() {
        PARTITIONS => history::keep(db).await,
        RECEIVING => receiving::expire(db).await,
        JOBS => jobs(&context).await,
        CANCELLED => all(&context, CANCELLED_BATCH, || control::take_back_left(db)).await,
        MARKS => all(&context, BATCH, || mark::expire(db, BATCH)).await,
        IDEMPOTENCY => all(&context, BATCH, || idempotency::expire(db, BATCH)).await,
        NEWS => news_of_orders(&context).await,
        DELIVERIES => deliveries(&context).await,
        READERS => readers(&context).await,
        image::REMOVAL => {
            all(&context, objects::REMOVED_AT_ONCE, || objects::remove_due(db, &context.services.objects))
                .await
        }
        PARTNERS => clock::start_due(&context.services).await,
        COMPARISONS => changes::compare(&context.services).await,
        BLOCKS => block::expire(db).await,
        ACTIVITY => activity(&context).await,
        SILENCE => {
            let days = context.probably_delivered_days;
            all(&context, silence::MOVED_AT_ONCE, || silence::presume(&context.services, days)).await
        }
        ADVICES => all(&context, end::CLOSED_AT_ONCE, || end::close_due(&context.services)).await,
        LOGINS => logins(&context).await,
        other => {
            tracing::warn!(task = other, "unknown upkeep task");
            return;
        }
    };
    let outcome = if done.is_ok() { "succeeded" } else { "failed" };
    context.services.metrics.activity().note(Subject::Upkeep, outcome, started.elapsed());
    match done {
        Ok(0) => {}
        Ok(count) => tracing::info!(task, count, "upkeep done"),
        Err(error) => {
            tracing::warn!(task, error = %causes(&error), "upkeep failed; it will run again in a minute");
        }
    }
}

/// Makes and removes the moments between which readers read, and removes readers that nobody reads.
async fn readers(context: &WorkerContext) -> Result<u64, Problem> {
    let db = &context.services.db;
    let made = reader::keep(db).await? + reader::forget(&context.services).await?;
    Ok(made + all(context, BATCH, || reader::thin(db, BATCH)).await?)
}

/// Samples what waits, and ends acknowledgements of what is over.
async fn activity(context: &WorkerContext) -> Result<u64, Problem> {
    let forgotten = backlog::sample(&context.services).await?;
    Ok(forgotten + attention::settle(&context.services).await?)
}

async fn news_of_orders(context: &WorkerContext) -> Result<u64, Problem> {
    let db = &context.services.db.main;
    let lost = news::retention::expire_lost(db).await?;
    Ok(lost + all(context, BATCH, || news::retention::expire(db, BATCH)).await?)
}

async fn jobs(context: &WorkerContext) -> Result<u64, Problem> {
    let db = &context.services.db.main;
    let emptied = all(context, JOBS_BATCH, || retention::forget_rows(db, JOBS_BATCH)).await?;
    let given_up = all(context, BATCH, || withheld::expire(db, BATCH)).await?;
    Ok(emptied + given_up + all(context, JOBS_BATCH, || retention::expire(db, JOBS_BATCH)).await?)
}

async fn logins(context: &WorkerContext) -> Result<u64, Problem> {
    let db = &context.services.db.main;
    // first: it is promised within a minute
    let left = token::made::deactivate_left(&context.services).await?;
    let tokens = all(context, BATCH, || token::expire(db, BATCH)).await?
        + all(context, BATCH, || token::forget_revoked(db, BATCH)).await?;
    Ok(left + tokens + all(context, BATCH, || session::expire(db, BATCH)).await?)
}

async fn deliveries(context: &WorkerContext) -> Result<u64, Problem> {
    let db = &context.services.db.main;
    let orphans = delivery::cancel_orphans(db).await?;
    Ok(orphans + all(context, delivery::CANCELLED_AT_ONCE, || delivery::expire(db)).await?)
}

/// Removes batches until one is not full, so that a minute of removals keeps up with a minute of new rows.
async fn all<F>(context: &WorkerContext, batch: i64, mut remove: impl FnMut() -> F) -> Result<u64, Problem>
where
    F: Future<Output = Result<u64, Problem>>,
{
    let (started, mut removed) = (Instant::now(), 0);
    loop {
        let count = remove().await?;
        removed += count;
        if i64::try_from(count).is_ok_and(|count| count < batch)
            || started.elapsed() > WHILE
            || context.stop.is_cancelled()
        {
            return Ok(removed);
        }
    }
}
