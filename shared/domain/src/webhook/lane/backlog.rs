//! How much is waiting to be delivered, for monitoring.

use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Problem;

/// Deliveries of one webhook that are counted: beyond that, a backlog is a backlog.
pub const COUNTED: i64 = 10_000;

/// Webhooks that are looked at.
const LANES: i32 = 10_000;

/// The deliveries that are due now, of active webhooks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Backlog {
    /// How many, at most [`COUNTED`] a webhook.
    pub due: i64,
    /// Whether a webhook has more than that.
    pub is_more: bool,
    /// Those of them whose destination fails, or asked to be left alone: they wait for it, not for a worker.
    pub held: i64,
    /// Of how many webhooks.
    pub lanes: i64,
    /// Those of them that wait for a worker, and not for their destination.
    pub free_lanes: i64,
    /// How long the oldest due delivery has been waiting for a worker, in seconds, without held ones.
    pub oldest_seconds: f64,
    /// The organisation that has most of those that wait for a worker.
    pub busiest: Option<OrganisationId>,
    /// How many of them it has.
    pub busiest_due: i64,
}

impl Backlog {
    /// Those of them that wait for a worker, and not for their destination.
    #[must_use]
    pub fn free(&self) -> i64 {
        self.due - self.held
    }
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
               SELECT w.organisation_id, due.n, l.held, greatest(seen.next_attempt_at, l.held_until) AS waits_since
               FROM seen
               CROSS JOIN LATERAL (SELECT organisation_id, active, max_per_second FROM webhook
                                   WHERE id = ANY (ARRAY[seen.webhook_id]) LIMIT 1) AS w
               CROSS JOIN LATERAL (SELECT held_until, failures > 0 OR coalesce(held_until > now(), false)
                                          -- what waits for the rate of its webhook is not late
                                          OR (w.max_per_second IS NOT NULL AND coalesce(paid_until > now() - interval '1 minute', false)) AS held
                                   FROM webhook_lane WHERE webhook_id = ANY (ARRAY[seen.webhook_id]) LIMIT 1) AS l
               CROSS JOIN LATERAL (
                   SELECT count(*) AS n FROM (
                       SELECT FROM delivery d
                       WHERE d.webhook_id = seen.webhook_id AND d.next_attempt_at <= now() LIMIT $2) AS d
               ) due
               WHERE seen.next_attempt_at <= now() AND w.active
           ), busiest AS (
               SELECT organisation_id, sum(n)::bigint AS items FROM lane WHERE NOT held
               GROUP BY organisation_id ORDER BY items DESC, organisation_id LIMIT 1
           )
           SELECT coalesce(sum(n), 0)::bigint AS "due!", coalesce(bool_or(n >= $2), false) AS "is_more!",
                  coalesce(sum(n) FILTER (WHERE held), 0)::bigint AS "held!", count(*) AS "lanes!",
                  count(*) FILTER (WHERE NOT held) AS "free_lanes!",
                  coalesce(extract(epoch FROM now() - min(waits_since) FILTER (WHERE NOT held)), 0)::float8
                      AS "oldest_seconds!",
                  (SELECT organisation_id FROM busiest) AS "busiest?: OrganisationId",
                  coalesce((SELECT items FROM busiest), 0) AS "busiest_due!"
           FROM lane"#,
        LANES,
        COUNTED,
    )
    .fetch_one(&db.main)
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
        r#"SELECT (SELECT count(*) FROM webhook_lane l
                   CROSS JOIN LATERAL (SELECT active FROM webhook WHERE id = ANY (ARRAY[l.webhook_id]) LIMIT 1) AS w
                   WHERE l.failures > 0 AND w.active) AS "failing!",
                  (SELECT count(*) FROM webhook WHERE disabled_at IS NOT NULL) AS "disabled!""#
    )
    .fetch_one(&db.main)
    .await?;
    Ok(found)
}

/// Waiting deliveries of a scope that are counted.
pub const WAITING: i64 = 1_000;
/// Hours for which exhausted deliveries are counted.
pub const EXHAUSTED_HOURS: i32 = 24;

/// The deliveries of a scope that are due, of active webhooks, up to [`WAITING`]. Those of the whole service are in [`Backlog`].
pub async fn due(
    db: &Database,
    organisations: &[OrganisationId],
    eshop: Option<EshopId>,
) -> Result<i64, Problem> {
    let due = sqlx::query_scalar!(
        r#"SELECT count(*) AS "due!" FROM (
               SELECT FROM webhook w CROSS JOIN LATERAL (
                   SELECT FROM delivery d WHERE d.webhook_id = ANY (ARRAY[w.id]) AND d.next_attempt_at <= now()
                   ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT $3
               ) AS d
               WHERE w.organisation_id = ANY ($1) AND in_eshop($2, w.eshop_id) AND w.active LIMIT $3
           ) AS due"#,
        organisations as &[OrganisationId],
        eshop as Option<EshopId>,
        WAITING,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(due)
}

/// The deliveries of a scope whose last attempt failed and whose next one is not due, of active webhooks, up to [`WAITING`]: of all
/// webhooks by the index of retries, else of each webhook of the scope.
pub async fn retrying(db: &Database, scope: &Scope) -> Result<i64, Problem> {
    let retrying = sqlx::query_scalar!(
        r#"SELECT count(*) AS "retrying!" FROM (
               (SELECT FROM delivery d
                WHERE $1::uuid[] IS NULL AND d.attempt_count > 0 AND d.next_attempt_at > now()
                  AND (SELECT w.active FROM webhook w WHERE w.id = d.webhook_id)
                ORDER BY d.next_attempt_at, d.webhook_id LIMIT $3)
               UNION ALL
               (SELECT FROM webhook w CROSS JOIN LATERAL (
                    SELECT FROM delivery d WHERE d.webhook_id = ANY (ARRAY[w.id]) AND d.next_attempt_at > now() AND d.attempt_count > 0
                    ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT $3
                ) AS d
                WHERE w.organisation_id = ANY ($1) AND in_eshop($2, w.eshop_id) AND w.active LIMIT $3)
           ) AS retrying"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        WAITING,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(retrying)
}

/// The deliveries of a scope that were exhausted in the last [`EXHAUSTED_HOURS`].
pub async fn exhausted(db: &Database, scope: &Scope) -> Result<i64, Problem> {
    let exhausted = sqlx::query_scalar!(
        r#"SELECT coalesce(sum(a.deliveries), 0)::bigint AS "exhausted!" FROM exhausted_activity a
           WHERE a.minute > now() - make_interval(hours => $3)
             AND ($1::uuid[] IS NULL OR (SELECT in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id)
                                         FROM webhook w WHERE w.id = a.webhook_id))"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        EXHAUSTED_HOURS,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(exhausted)
}
