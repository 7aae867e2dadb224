//! The health of webhooks: which of them need attention, and the details of one.

pub mod exhausted;
mod list;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use sqlx::types::Json;

pub use self::list::{Filter, Line, Sort, page};
use super::delivery::search;
pub use crate::list::fields::subscription::Health;
use longshore_kernel::access::Scope;
use longshore_kernel::activity::CALLS_HOURS;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{DeliveryId, EshopId, OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;
use uuid::Uuid;

/// Webhooks a page.
pub const PAGE: usize = 50;
/// The maximum count of webhooks that need attention; beyond that, it is "many".
pub const COUNTED: i64 = 1_000;
/// Webhooks of all organisations that fail, or failed until they were deactivated, that are looked at: those that have failed for
/// longest, twice as many as an organisation may have.
const LOOKED_AT: i64 = 20_000;
/// Waiting deliveries that are counted.
pub const WAITING: i64 = 10_000;

impl Health {
    fn of(active: bool, disabled: bool, failures: i32) -> Self {
        match (active, disabled) {
            (_, true) => Self::Disabled,
            (false, false) => Self::Inactive,
            (true, false) if failures > 0 => Self::Failing,
            (true, false) => Self::Healthy,
        }
    }
}

/// Seconds after which a destination that fails needs attention, if the breaker has not opened before: one failed call is no alarm.
pub const LASTING: f64 = 60.0;

/// How many webhooks need attention, each count at most [`COUNTED`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Attention {
    /// Active ones that fail: the breaker has opened, or every attempt has failed for [`LASTING`], and deliveries wait for the next.
    pub failing: i64,
    /// When the last of these began to.
    pub failing_since: Option<DateTime<Utc>>,
    /// Those that were disabled.
    pub disabled: i64,
    /// When the last of these was.
    pub disabled_at: Option<DateTime<Utc>>,
}

/// Counts them, by the indexes on what is not well.
pub async fn attention(db: &Database, scope: &Scope) -> Result<Attention, Problem> {
    let found = sqlx::query_as!(
        Attention,
        r#"SELECT f.failing AS "failing!", f.failing_since, d.disabled AS "disabled!", d.disabled_at
           FROM (SELECT count(*) AS failing, max(failing_since) AS failing_since FROM (
                     SELECT l.failing_since FROM webhook_lane l JOIN webhook w ON w.id = l.webhook_id
                     WHERE l.failures > 0 AND (l.probe_at IS NOT NULL OR l.failing_since <= now() - make_interval(secs => $4))
                       AND w.active AND in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id)
                       AND (SELECT true FROM delivery d WHERE d.webhook_id = ANY (ARRAY[w.id])
                            ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT 1)
                     LIMIT $3) AS f) AS f
           CROSS JOIN (SELECT count(*) AS disabled, max(disabled_at) AS disabled_at FROM (
                     SELECT w.disabled_at FROM webhook w
                     WHERE w.disabled_at IS NOT NULL
                       AND in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id)
                     LIMIT $3) AS d) AS d"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
        LASTING,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(found)
}

/// How many webhooks are not well, each count at most [`COUNTED`].
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Those that are [`Health::Failing`], also if they need no attention yet.
    pub failing: i64,
    /// Those that were disabled.
    pub disabled: i64,
}

/// Counts them by their health.
pub async fn counts(db: &Database, scope: &Scope) -> Result<Counts, Problem> {
    let counts = sqlx::query_as!(
        Counts,
        r#"SELECT (SELECT count(*) FROM (
                      SELECT FROM webhook_lane l
                      CROSS JOIN LATERAL (SELECT organisation_id, eshop_id, active FROM webhook
                                          WHERE id = ANY (ARRAY[l.webhook_id]) LIMIT 1) AS w
                      WHERE l.failures > 0 AND w.active AND in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id)
                      LIMIT $3) AS f) AS "failing!",
                  (SELECT count(*) FROM (
                      SELECT FROM webhook w
                      WHERE w.disabled_at IS NOT NULL AND in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id)
                      LIMIT $3) AS d) AS "disabled!""#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(counts)
}

/// A webhook that fails now, as [`Attention::failing`] counts them.
#[derive(Clone, Debug)]
pub struct Unwell {
    /// Its id.
    pub id: WebhookId,
    /// Where it goes.
    pub destination: String,
    /// Its organisation.
    pub organisation_id: OrganisationId,
    /// What it hears of: an e-shop, or its organisation.
    pub source_id: Uuid,
    /// Name of that.
    pub eshop: String,
    /// Since when every attempt has failed.
    pub since: DateTime<Utc>,
    /// The last failed attempt of what waits: `{status, error, …}`.
    pub last: Option<Value>,
    /// Deliveries that wait, at most [`COUNTED`].
    pub waiting: i64,
}

/// So many active webhooks of a scope that fail: the one of each organisation that has failed for longest, then the next of each.
pub async fn unwell(db: &Database, scope: &Scope, count: i64) -> Result<Vec<Unwell>, Problem> {
    let found = sqlx::query_as!(
        Unwell,
        r#"WITH failing AS (
               SELECT w.id, w.destination, w.organisation_id, w.eshop_id, w.source_id, l.failing_since
               -- what others have does not take up the number where the scope names organisations
               FROM (SELECT webhook_id, failing_since FROM webhook_lane
                     WHERE failures > 0 AND (probe_at IS NOT NULL OR failing_since <= now() - make_interval(secs => $6))
                     ORDER BY failing_since LIMIT (SELECT CASE WHEN $1::uuid[] IS NULL THEN $5::bigint END)) AS l
               CROSS JOIN LATERAL (SELECT id, destination, organisation_id, eshop_id, source_id, active FROM webhook
                                   WHERE id = ANY (ARRAY[l.webhook_id]) LIMIT 1) AS w
               WHERE w.active AND in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id)
                 -- where nothing waits, nothing would show that the destination is back
                 AND (SELECT true FROM delivery d WHERE d.webhook_id = ANY (ARRAY[w.id])
                            ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT 1)
           ), named AS (
               SELECT *, row_number() OVER (PARTITION BY organisation_id ORDER BY failing_since, id) AS turn
               FROM failing ORDER BY turn, failing_since, id LIMIT $4
           )
           SELECT n.id AS "id!", n.destination AS "destination!", n.organisation_id AS "organisation_id!",
                  n.source_id AS "source_id!", s.name AS "eshop!", n.failing_since AS "since!",
                  (SELECT d.attempts -> -1 FROM delivery d WHERE d.webhook_id = ANY (ARRAY[n.id]) AND d.attempt_count > 0
                   ORDER BY d.webhook_id DESC, d.created_at DESC, d.id DESC LIMIT 1) AS last,
                  (SELECT count(*) FROM (SELECT FROM delivery d WHERE d.webhook_id = ANY (ARRAY[n.id])
                                         ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT $3) AS d) AS "waiting!"
           FROM named n
           CROSS JOIN LATERAL (SELECT name FROM webhook_source WHERE id = ANY (ARRAY[n.source_id]) LIMIT 1) AS s
           ORDER BY n.failing_since, n.id"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
        count,
        LOOKED_AT,
        LASTING,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// Where webhooks go, for those of these that are in the scope.
pub async fn destinations(
    db: &Database,
    scope: &Scope,
    ids: &[WebhookId],
) -> Result<Vec<(WebhookId, String)>, Problem> {
    let found = sqlx::query!(
        r#"SELECT id AS "id: WebhookId", destination FROM webhook
           WHERE id = ANY ($1) AND in_scope($2, organisation_id) AND in_eshop($3, eshop_id)"#,
        ids as &[WebhookId],
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found.into_iter().map(|webhook| (webhook.id, webhook.destination)).collect())
}

/// Everything about one webhook.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Its organisation.
    pub organisation_id: OrganisationId,
    /// Name of that organisation.
    pub organisation: String,
    /// Its e-shop; nothing: it is one of the organisation.
    pub eshop_id: Option<EshopId>,
    /// Name of what it hears of.
    pub eshop: String,
    /// What it listens to.
    pub event: String,
    /// Where it goes.
    pub destination: String,
    /// Whether it is sent to.
    pub active: bool,
    /// How calls are authenticated.
    pub authentication_type: String,
    /// Why it was disabled.
    pub disabled_reason: Option<String>,
    /// When it was disabled.
    pub disabled_at: Option<DateTime<Utc>>,
    /// Calls at once.
    pub max_in_flight: i32,
    /// Whether it is sent one after the other.
    pub ordered: bool,
    /// Calls that may begin in a second; nothing: any number.
    pub max_per_second: Option<f64>,
    /// Events that a call has at most; nothing: a call for each.
    pub batch_events: Option<i32>,
    /// For how long the first of them waits, in milliseconds.
    pub batch_wait_ms: f64,
    /// Which events of its types it is told of; nothing: all.
    pub criteria: Option<Value>,
    /// What it is sent of each; nothing: all.
    pub selected: Option<Vec<String>>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// Secrets that were rotated away and still sign.
    pub former_secrets: i64,
    /// Until when the last of these does.
    pub former_sign_until: Option<DateTime<Utc>>,
    /// Failures since the last success.
    pub failures: i32,
    /// Since when there was nothing else.
    pub failing_since: Option<DateTime<Utc>>,
    /// When the next probe is due, where the breaker is open.
    pub probe_at: Option<DateTime<Utc>>,
    /// Probes that have failed since it opened.
    pub probes: i32,
    /// Until when nothing is sent because the destination asked for that.
    pub held_until: Option<DateTime<Utc>>,
    /// Whether a worker serves its lane at this moment.
    pub leased: bool,
    /// Deliveries that wait, at most [`WAITING`].
    pub waiting: i64,
    /// Of these, those that are due.
    pub due: i64,
    /// When the one that is due for longest became so.
    pub oldest_due: Option<DateTime<Utc>>,
}

impl Webhook {
    /// How it is.
    #[must_use]
    pub fn health(&self) -> Health {
        Health::of(self.active, self.disabled_at.is_some(), self.failures)
    }
}

/// The webhook of that id, if it is in the scope.
pub async fn find(db: &Database, scope: &Scope, id: WebhookId) -> Result<Option<Webhook>, Problem> {
    let found = sqlx::query_as!(
        Webhook,
        r#"SELECT w.id, w.organisation_id, o.name AS organisation, w.eshop_id AS "eshop_id: EshopId", s.name AS "eshop!",
                  coalesce(w.event, array_to_string(w.events, ', ')) AS "event!", w.destination,
                  w.active, w.authentication_type, w.disabled_reason, w.disabled_at, w.max_in_flight, w.ordered,
                  w.max_per_second::float8, w.batch_events, (extract(epoch FROM w.batch_wait) * 1000)::float8 AS "batch_wait_ms!", w.criteria, w.selected, w.created_at, f.secrets AS "former_secrets!", f.until AS "former_sign_until?",
                  l.failures, l.failing_since, l.probe_at, l.probes,
                  CASE WHEN l.held_until > now() THEN l.held_until END AS held_until, l.leased_until > now() AS "leased!",
                  (SELECT count(*) FROM (SELECT FROM delivery d WHERE d.webhook_id = w.id LIMIT $4) AS n) AS "waiting!",
                  (SELECT count(*) FROM (SELECT FROM delivery d WHERE d.webhook_id = w.id AND d.next_attempt_at <= now()
                                         LIMIT $4) AS n) AS "due!",
                  (SELECT d.next_attempt_at FROM delivery d WHERE d.webhook_id = w.id AND d.next_attempt_at <= now()
                   ORDER BY d.next_attempt_at LIMIT 1) AS oldest_due
           FROM webhook w
           JOIN webhook_lane l ON l.webhook_id = w.id
           JOIN organisation o ON o.id = w.organisation_id
           JOIN webhook_source s ON s.id = w.source_id
           CROSS JOIN LATERAL (SELECT count(*) AS secrets, max(signs_until) AS until FROM webhook_former_secret
                               WHERE webhook_id = w.id AND signs_until > now()) AS f
           WHERE w.id = $1 AND in_scope($2, w.organisation_id) AND in_eshop($3, w.eshop_id)"#,
        id.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        WAITING,
    )
    .fetch_optional(&db.main)
    .await?;
    Ok(found)
}

/// How a webhook has been doing.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Calls of the last day, whether or not their deliveries have ended.
    pub calls: i64,
    /// Of these, those that delivered.
    pub delivered: i64,
    /// The newest deliveries that ended by a call, as many as were looked at.
    pub ended: i64,
    /// Since when these ended.
    pub since: Option<DateTime<Utc>>,
    /// Half of their last calls took no longer, in milliseconds.
    pub median_ms: Option<f64>,
    /// 95 % of their last calls took no longer.
    pub p95_ms: Option<f64>,
    /// How many ended in each state.
    pub counts: search::Counts,
    /// The last calls, newest first.
    pub last_calls: Vec<Call>,
}

/// A call to the destination, for any delivery.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    /// The delivery.
    pub delivery: DeliveryId,
    /// The call: `{number, at, durationMs, status, error, response}`.
    pub attempt: Value,
}

/// Reads the counts of the workers, the newest deliveries that ended, and as many of the last calls. The caller must have access to
/// that webhook.
///
/// No index has the time of a call. So it reads [`search::OF_STATES`] of each kind that may contain the last ones, each with an index,
/// independent of the backlog: of the failed, waiting deliveries the newest and the oldest (probes and ordered lanes take
/// these); of the ended ones the newest, and the last that did not succeed.
pub async fn record(db: &Database, webhook: WebhookId, last_calls: i64) -> Result<Record, Problem> {
    // a number rather than a parameter limits each look: of that the planner expects a tenth of all there is
    let found = sqlx::query!(
        r#"WITH newest AS MATERIALIZED (
               SELECT id, state, finished_at, attempts, coalesce(batch_id, id) AS sent FROM delivery_history
               WHERE webhook_id = ANY (ARRAY[$1::uuid]) ORDER BY webhook_id DESC, id DESC LIMIT (SELECT 1000)
           ), unsuccessful AS MATERIALIZED (
               SELECT id, state, attempts, coalesce(batch_id, id) AS sent FROM delivery_history
               WHERE webhook_id = $1 AND state <> 'delivered' ORDER BY finished_at DESC LIMIT 1000
           ), tried AS (
               SELECT DISTINCT ON (id) id, sent, attempts, (attempts -> -1 ->> 'at')::timestamptz AS at
               FROM ((SELECT id, coalesce(batch_id, id) AS sent, attempts FROM delivery WHERE webhook_id = $1 AND attempt_count > 0
                      ORDER BY created_at DESC, id DESC LIMIT 1000)
                     UNION ALL
                     (SELECT id, coalesce(batch_id, id), attempts FROM delivery WHERE webhook_id = $1 AND attempt_count > 0
                      ORDER BY created_at, id LIMIT 1000)
                     UNION ALL SELECT id, sent, attempts FROM newest
                     UNION ALL SELECT id, sent, attempts FROM unsuccessful) AS looked_at
               WHERE attempts -> -1 IS NOT NULL ORDER BY id
           ), last AS (
               -- so many calls are of no more deliveries than that; of those of a batch, the first has what was answered
               SELECT id, attempts FROM (SELECT DISTINCT ON (sent) * FROM tried ORDER BY sent, id) AS each ORDER BY at DESC, id DESC LIMIT $2
           ), call AS (
               SELECT last.id, call.attempt, row_number() OVER (ORDER BY (call.attempt ->> 'at')::timestamptz DESC, last.id DESC) AS place
               FROM last CROSS JOIN LATERAL jsonb_array_elements(last.attempts) AS call (attempt)
           )
           SELECT n.newest AS "newest!", n.delivered AS "delivered!", n.ended AS "ended!", n.since, n.median_ms, n.p95_ms,
                  u.exhausted AS "exhausted!", u.cancelled AS "cancelled!", called.calls AS "calls!", called.good AS "good!",
                  (SELECT coalesce(jsonb_agg(jsonb_build_object('delivery', id, 'attempt', attempt) ORDER BY place), '[]')
                   FROM call WHERE place <= $2) AS "last_calls!: Json<Vec<Call>>"
           FROM (SELECT count(*) AS newest, count(*) FILTER (WHERE state = 'delivered') AS delivered,
                        count(*) FILTER (WHERE state <> 'cancelled') AS ended, min(finished_at) AS since,
                        percentile_cont(0.5) WITHIN GROUP (ORDER BY (attempts -> -1 ->> 'durationMs')::float8) AS median_ms,
                        percentile_cont(0.95) WITHIN GROUP (ORDER BY (attempts -> -1 ->> 'durationMs')::float8) AS p95_ms
                 FROM newest) AS n
           CROSS JOIN (SELECT count(*) FILTER (WHERE state = 'exhausted') AS exhausted,
                              count(*) FILTER (WHERE state = 'cancelled') AS cancelled
                       FROM unsuccessful) AS u
           CROSS JOIN (SELECT coalesce(sum(delivered + failed), 0)::bigint AS calls, coalesce(sum(delivered), 0)::bigint AS good
                       FROM webhook_activity
                       WHERE webhook_id <= $1 AND (webhook_id, minute) > ($1, now() - make_interval(hours => $3))) AS called"#,
        webhook.get(),
        last_calls,
        CALLS_HOURS,
    )
    .fetch_one(&db.main)
    .await?;
    Ok(Record {
        calls: found.calls,
        delivered: found.good,
        ended: found.ended,
        since: found.since,
        median_ms: found.median_ms,
        p95_ms: found.p95_ms,
        counts: search::Counts {
            newest: found.newest,
            delivered: found.delivered,
            exhausted: found.exhausted,
            cancelled: found.cancelled,
        },
        last_calls: found.last_calls.0,
    })
}
