//! Finding chunks that are due: what the queue lost, what waits for its next attempt, what a dead process held.
//!
//! Only a few chunks of each job are looked at, as only a few are on the queue at once: a backlog of a million chunks is
//! not read to find the next ones.

use sqlx::PgPool;

use super::acceptance::{WINDOW, chunk_name};
use super::queue::Queue;
use crate::platform::problem::Problem;

/// Chunks of a queue that one scan finds at most.
const MOST: i64 = 3_200;

/// Chunks that are due, each with the queue it belongs on. Any number of processes may ask: a queue takes each name once.
/// Neither what waits or runs nor what is due to another queue, which may be paused, keeps it from what lies behind.
pub async fn due(db: &PgPool) -> Result<Vec<(Queue, String)>, Problem> {
    // live chunks first, in their order, then what is due of them: the other way round, a plan made while few are due
    // reads all that are, for each job
    let due = sqlx::query!(
        r#"SELECT c.job_id, c.number, q.calls_partner AS "calls_partner!"
           FROM (VALUES (false), (true)) AS q (calls_partner)
           CROSS JOIN LATERAL (
               SELECT c.job_id, c.number
               FROM (SELECT j.id FROM job j
                     WHERE j.state IN ('queued', 'running', 'retrying')
                       AND NOT EXISTS (
                           SELECT FROM job e
                           WHERE e.sequence = j.sequence AND e.acceptance < j.acceptance
                             AND e.state IN ('queued', 'running', 'retrying') AND e.out_of_line_until IS NULL)
                       AND (j.out_of_line_until IS NULL OR j.out_of_line_until <= now())
                     ORDER BY j.acceptance) AS j
               CROSS JOIN LATERAL (
                   SELECT live.job_id, live.number
                   FROM (SELECT * FROM job_chunk
                         WHERE job_id = j.id AND state IN ('queued', 'running') ORDER BY number OFFSET 0) AS live
                   WHERE live.calls_partner = q.calls_partner
                     AND CASE live.state WHEN 'queued' THEN live.next_attempt_at ELSE live.leased_until END <= now()
                   LIMIT $2) AS c
               LIMIT $1) AS c"#,
        MOST,
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
