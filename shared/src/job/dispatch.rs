//! Finding chunks that are due: what the queue lost, what waits for its next attempt, what a dead process held.
//!
//! Only a few chunks of each job are looked at, as only a few are on the queue at once: a backlog of a million chunks is
//! not read to find the next ones.

use sqlx::PgPool;

use super::acceptance::{WINDOW, chunk_name};
use super::queue::Queue;
use crate::platform::problem::Problem;

/// Jobs that one scan looks at.
const JOBS: i64 = 200;

/// Chunks that are due, each with the queue it belongs on. Any number of processes may ask: a queue takes each name once.
pub async fn due(db: &PgPool) -> Result<Vec<(Queue, String)>, Problem> {
    let due = sqlx::query!(
        "SELECT c.job_id, c.number, c.calls_partner
         FROM (SELECT j.id FROM job j
               WHERE j.state IN ('queued', 'running', 'retrying')
                 AND NOT EXISTS (
                     SELECT FROM job e
                     WHERE e.sequence = j.sequence AND e.acceptance < j.acceptance
                       AND e.state IN ('queued', 'running', 'retrying') AND e.out_of_line_until IS NULL)
                 AND (j.out_of_line_until IS NULL OR j.out_of_line_until <= now())
               ORDER BY j.acceptance LIMIT $1) AS j
         CROSS JOIN LATERAL (
             SELECT c.job_id, c.number, c.calls_partner FROM job_chunk c
             WHERE c.job_id = j.id
               AND ((c.state = 'queued' AND c.next_attempt_at <= now())
                    OR (c.state = 'running' AND c.leased_until < now()))
             ORDER BY c.number LIMIT $2) AS c",
        JOBS,
        i64::from(WINDOW),
    )
    .fetch_all(db)
    .await?;
    Ok(due.into_iter().map(|c| (queue_of(c.calls_partner), chunk_name(c.job_id, c.number))).collect())
}

/// Where a chunk is put.
#[must_use]
pub fn queue_of(calls_partner: bool) -> Queue {
    if calls_partner { Queue::Partner } else { Queue::Chunk }
}
