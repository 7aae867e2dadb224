//! How much is waiting to be delivered, for monitoring.

use longshore_kernel::database::Database;
use longshore_kernel::problem::Problem;

/// Deliveries of one webhook that are counted: beyond that, a backlog is a backlog.
const COUNTED: i64 = 10_000;

/// Webhooks that are looked at.
const LANES: i32 = 10_000;

/// The deliveries that are due now, of active webhooks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Backlog {
    /// How many, at most 10,000 a webhook.
    pub due: i64,
    /// Those of them whose destination fails: they wait for it, not for a worker.
    pub held: i64,
    /// Of how many webhooks.
    pub lanes: i64,
    /// Those of them that wait for a worker, and not for their destination.
    pub free_lanes: i64,
    /// How long the oldest due delivery has been waiting for a worker, in seconds, without held ones.
    pub oldest_seconds: f64,
}

/// Counts them, skipping from webhook to webhook through the index.
pub async fn read(db: &Database) -> Result<Backlog, Problem> {
    let found = sqlx::query_as!(
        Backlog,
        r#"WITH RECURSIVE seen AS (
               (SELECT webhook_id, next_attempt_at, 1 AS n FROM delivery
                ORDER BY webhook_id, next_attempt_at, id LIMIT 1)
               UNION ALL
               SELECT next.webhook_id, next.next_attempt_at, seen.n + 1
               FROM seen CROSS JOIN LATERAL (
                   SELECT webhook_id, next_attempt_at FROM delivery
                   WHERE webhook_id > seen.webhook_id ORDER BY webhook_id, next_attempt_at, id LIMIT 1
               ) next
               WHERE seen.n < $1
           ), lane AS (
               SELECT seen.next_attempt_at, due.n, l.failures > 0 AS failing
               FROM seen
               JOIN webhook w ON w.id = seen.webhook_id AND w.active
               JOIN webhook_lane l ON l.webhook_id = w.id
               CROSS JOIN LATERAL (
                   SELECT count(*) AS n FROM (
                       SELECT FROM delivery d
                       WHERE d.webhook_id = seen.webhook_id AND d.next_attempt_at <= now() LIMIT $2) AS d
               ) due
               WHERE seen.next_attempt_at <= now()
           )
           SELECT coalesce(sum(n), 0)::bigint AS "due!",
                  coalesce(sum(n) FILTER (WHERE failing), 0)::bigint AS "held!", count(*) AS "lanes!",
                  count(*) FILTER (WHERE NOT failing) AS "free_lanes!",
                  coalesce(extract(epoch FROM now() - min(next_attempt_at) FILTER (WHERE NOT failing)), 0)::float8
                      AS "oldest_seconds!"
           FROM lane"#,
        LANES,
        COUNTED,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(found)
}

/// Webhooks that do not deliver as they should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwell {
    /// Active ones whose last attempt failed.
    pub failing: i64,
    /// Disabled webhooks, which wait to be activated.
    pub disabled: i64,
}

/// Counts them, by the indexes on just these.
pub async fn unwell(db: &Database) -> Result<Unwell, Problem> {
    let found = sqlx::query_as!(
        Unwell,
        r#"SELECT (SELECT count(*) FROM webhook_lane l JOIN webhook w ON w.id = l.webhook_id AND w.active
                   WHERE l.failures > 0) AS "failing!",
                  (SELECT count(*) FROM webhook WHERE disabled_at IS NOT NULL) AS "disabled!""#
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(found)
}
