//! The operator's settings of a queue (`docs/reference/jobs.md#queues`): whether it is paused, and its concurrency. They
//! are a row, so they survive every Redis and every worker; each worker reads it once a second and applies it.

use chrono::{DateTime, Utc};
use sqlx::PgPool;

use super::Queue;
use crate::problem::Problem;

/// No operator may ask for more at once than this, on one queue of one worker.
pub const MAX_CONCURRENCY: u16 = 4096;

/// The wish for one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Which queue.
    pub queue: Queue,
    /// No new work starts; running work continues.
    pub paused: bool,
    /// When the pause ends automatically, if it does.
    pub resumes_at: Option<DateTime<Utc>>,
    /// The pause has expired, and this is not recorded yet.
    pub overdue: bool,
    /// What each worker runs at once; without it, what the worker was started with.
    pub concurrency: Option<u16>,
}

/// The wishes for all queues, in their order.
pub async fn wishes(db: &PgPool) -> Result<Vec<Wish>, Problem> {
    let rows = sqlx::query!(
        r#"SELECT name, paused, concurrency, resumes_at, coalesce(resumes_at <= now(), false) AS "overdue!" FROM queue"#
    )
    .fetch_all(db)
    .await?;
    let wish = |queue: Queue| {
        let row = rows.iter().find(|row| row.name == queue.name());
        let overdue = row.is_some_and(|row| row.overdue);
        Wish {
            queue,
            paused: row.is_some_and(|row| row.paused) && !overdue,
            resumes_at: row.and_then(|row| row.resumes_at).filter(|_| !overdue),
            overdue,
            concurrency: row.and_then(|row| row.concurrency).and_then(|n| u16::try_from(n).ok()),
        }
    };
    Ok(Queue::ALL.map(wish).to_vec())
}
