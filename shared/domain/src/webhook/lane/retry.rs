//! What is to be tried again, found as it becomes due.
//!
//! What is new is handed to a queue when it is recorded; what is to be tried again becomes due by the clock alone. This
//! finds them at a cost that depends only on the number of due retries; [`due`](super::due) finds what it misses.

use std::time::Duration;

use chrono::{DateTime, Utc};

use longshore_kernel::database::Database;
use longshore_kernel::ids::WebhookId;
use longshore_kernel::problem::Problem;

/// A moment, less than the shortest wait before a retry.
const SOON: Duration = Duration::from_secs(2);

/// One look at what became due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Active webhooks whose lane is free, may send (or probe), and has something to try again; organisations take turns.
    pub lanes: Vec<WebhookId>,
    /// Up to when this has looked, by the clock of Postgres: the next look starts there.
    pub until: DateTime<Utc>,
    /// Something more becomes due within two seconds. No wait before a retry is shorter, so after a look without a result
    /// there is no need to look again earlier.
    pub soon: bool,
}

/// Looks at up to `limit` deliveries that became due after `since`; without it, only says what time it is.
pub async fn retries(db: &Database, since: Option<DateTime<Utc>>, limit: usize) -> Result<Retries, Problem> {
    let limit = i64::try_from(limit).map_err(Problem::internal)?;
    let looked = sqlx::query_as!(
        Retries,
        r#"WITH became AS MATERIALIZED (
               SELECT webhook_id, next_attempt_at FROM delivery
               WHERE (attempt_count > 0 OR next_attempt_at > created_at) AND next_attempt_at > coalesce($1::timestamptz, 'infinity') AND next_attempt_at <= now()
               ORDER BY next_attempt_at LIMIT $2
           )
           SELECT ARRAY(
                      SELECT d.webhook_id FROM (SELECT DISTINCT webhook_id FROM became) d
                      CROSS JOIN LATERAL (
                          SELECT w.organisation_id FROM webhook w JOIN webhook_lane l ON l.webhook_id = w.id
                          WHERE w.id = d.webhook_id AND w.active AND l.leased_until < now()
                            AND coalesce(greatest(l.probe_at, l.held_until, rests_until(l.paid_until)) <= now(), true) OFFSET 0
                      ) free
                      ORDER BY row_number() OVER (PARTITION BY free.organisation_id)
                  ) AS "lanes!: Vec<WebhookId>",
                  CASE WHEN (SELECT count(*) FROM became) = $2 THEN (SELECT max(next_attempt_at) FROM became)
                       ELSE now() END AS "until!",
                  -- the first of them: whether there is any may be asked of the other index of what was tried, all of it
                  coalesce((SELECT next_attempt_at FROM delivery WHERE (attempt_count > 0 OR next_attempt_at > created_at) AND next_attempt_at >= now()
                            ORDER BY next_attempt_at LIMIT 1) <= now() + make_interval(secs => $3), false) AS "soon!""#,
        since,
        limit,
        SOON.as_secs_f64(),
    )
    .fetch_one(&db.main)
    .await?;
    Ok(looked)
}
