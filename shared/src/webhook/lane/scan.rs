//! Looking over all lanes for those that have something to send.

use uuid::Uuid;

use crate::platform::database::Database;
use crate::platform::problem::Problem;

/// One look over the lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Active webhooks whose lane is free, may send (or probe), and has something due.
    pub lanes: Vec<Uuid>,
    /// Where to go on; nothing when every lane was looked at.
    pub resume_after: Option<Uuid>,
}

/// Looks at up to `limit` lanes that have anything to do, in the order of their ids, for those that have it now. It
/// skips from lane to lane through the index, whatever their backlog.
pub async fn due(db: &Database, after: Option<Uuid>, limit: usize) -> Result<Scan, Problem> {
    let seen = sqlx::query!(
        r#"WITH RECURSIVE seen AS (
               (SELECT webhook_id, next_attempt_at, 1 AS n FROM delivery
                WHERE webhook_id > $1 ORDER BY webhook_id, next_attempt_at, id LIMIT 1)
               UNION ALL
               SELECT next.webhook_id, next.next_attempt_at, seen.n + 1
               FROM seen CROSS JOIN LATERAL (
                   SELECT webhook_id, next_attempt_at FROM delivery
                   WHERE webhook_id > seen.webhook_id ORDER BY webhook_id, next_attempt_at, id LIMIT 1
               ) next
               WHERE seen.n < $2
           )
           SELECT seen.webhook_id AS "webhook!",
                  seen.next_attempt_at <= now() AND lane.free
                  AND (NOT lane.ordered OR coalesce(
                      (SELECT t.next_attempt_at <= now() FROM delivery t
                       WHERE t.webhook_id = seen.webhook_id AND t.attempt_count > 0
                       ORDER BY t.created_at, t.id LIMIT 1), true)) AS due
           FROM seen
           LEFT JOIN LATERAL (
               SELECT w.active AND l.leased_until < now() AND (l.probe_at IS NULL OR l.probe_at <= now()) AS free,
                      w.ordered
               FROM webhook w JOIN webhook_lane l ON l.webhook_id = w.id WHERE w.id = seen.webhook_id OFFSET 0
           ) lane ON true
           ORDER BY seen.webhook_id"#,
        after.unwrap_or(Uuid::nil()),
        i32::try_from(limit).map_err(Problem::internal)?,
    )
    .fetch_all(&db.main)
    .await?;
    let resume_after = (seen.len() == limit).then(|| seen.last().map(|s| s.webhook)).flatten();
    let lanes = seen.into_iter().filter(|s| s.due == Some(true)).map(|s| s.webhook).collect();
    Ok(Scan { lanes, resume_after })
}
