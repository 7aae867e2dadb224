//! Lanes: how workers share the deliveries of a webhook (the [room](super) says what a lane is).
//!
//! A turn of a worker is: [`lease`], then [`fetch`] and [`record`] for as long as it lasts, [`renew`] every second
//! meanwhile, then [`release`]. [`due`] finds the lanes that have something to send, whoever forgot them; [`retries`]
//! those that have something to try again, the moment it is due.
//!
//! Two rules keep a delivery from being sent twice in a turn. A fetch goes on *after* the last row of the one before;
//! and one that starts from the beginning is told the ids that are still in hand, which are those whose outcome was not
//! known to be committed *before this fetch was begun*.

pub mod backlog;
mod outcome;
mod retry;

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::{HeaderName, HeaderValue};
use uuid::Uuid;

pub use self::outcome::{Attempt, End, Outcome, Reported, record};
pub use self::retry::{Retries, retries};
use super::breaker::Breaker;
use super::event::Event;
use super::signature::Signer;
use super::subscription;
use crate::platform::database::Database;
use crate::platform::problem::Problem;
use crate::platform::services::Services;

/// How long a lease lasts unless it is renewed.
pub const LEASE: Duration = Duration::from_secs(3);

/// Deliveries of one fetch.
pub const BATCH: usize = 200;

/// A leased lane, and what is needed to send.
#[derive(Debug)]
pub struct Lease {
    /// The webhook.
    pub webhook: Uuid,
    /// Fencing token of this lease.
    pub token: i64,
    /// Whose it is.
    pub organisation: Uuid,
    /// Where to send.
    pub destination: String,
    /// Signs with its live secrets.
    pub signer: Signer,
    /// The header that authenticates to the destination.
    pub authentication: Option<(HeaderName, HeaderValue)>,
    /// How many may be under way at once.
    pub max_in_flight: usize,
    /// One at a time, in order, and a failure holds the rest.
    pub ordered: bool,
    /// How it stands with its destination. Where it is open, its pause is over: one probe may be sent.
    pub breaker: Breaker,
    /// The version of the subscription that this is of.
    pub version: DateTime<Utc>,
}

/// A delivery that is due.
#[derive(Debug)]
pub struct Due {
    /// The delivery.
    pub id: Uuid,
    /// Its event; absent when that has expired, since the webhook was inactive for so long.
    pub event: Option<Event>,
    /// Failed attempts so far.
    pub attempts: usize,
}

/// Where a fetch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    next_attempt_at: DateTime<Utc>,
    id: Uuid,
}

/// What a fetch starts from.
#[derive(Clone, Debug)]
pub enum From {
    /// The beginning, without what is in hand.
    Start {
        /// Deliveries whose outcome was not known to be committed when this was gathered.
        in_hand: Vec<Uuid>,
    },
    /// Where the last one ended.
    After(Cursor),
}

/// Leases a lane for [`LEASE`], from before this was called. Nothing when the webhook is not active (or gone), or the
/// lane is leased, or its next probe is not due.
///
/// It does not wait for the disk: a lease that a crash of Postgres undoes was lost as its holder finds out, since its
/// token, which counts microseconds, is given to nobody else.
pub async fn lease(services: &Services, webhook: Uuid) -> Result<Option<Lease>, Problem> {
    let leased = sqlx::query!(
        r#"UPDATE webhook_lane l
           SET token = greatest(l.token + 1, (extract(epoch FROM clock_timestamp()) * 1e6)::bigint),
               leased_until = now() + make_interval(secs => $2)
           FROM webhook w
           WHERE l.webhook_id = $1 AND w.id = l.webhook_id AND w.active AND l.leased_until < now()
             AND (l.probe_at IS NULL OR l.probe_at <= now())
             AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
           RETURNING l.token, w.organisation_id, w.destination, w.authentication, w.secret,
                     ARRAY(SELECT f.secret FROM webhook_former_secret f
                           WHERE f.webhook_id = $1 AND f.signs_until > now()
                           ORDER BY f.signs_until DESC) AS "former_secrets!",
                     w.max_in_flight, w.ordered, w.changed_at,
                     l.failures, CASE WHEN l.probe_at IS NOT NULL THEN l.probes END AS probes"#,
        webhook,
        LEASE.as_secs_f64(),
    )
    .fetch_optional(&services.db.main)
    .await?;
    let Some(row) = leased else { return Ok(None) };
    let secrets = std::iter::once(row.secret)
        .chain(row.former_secrets)
        .map(|sealed| subscription::open_secret(&services.vault, webhook, &sealed))
        .collect::<Result<Vec<_>, _>>()?;
    let authentication = match &row.authentication {
        Some(sealed) => subscription::open_authentication(&services.vault, webhook, sealed)?.header(),
        None => None,
    };
    Ok(Some(Lease {
        webhook,
        token: row.token,
        organisation: row.organisation_id,
        destination: row.destination,
        signer: Signer::new(secrets),
        authentication,
        max_in_flight: usize::try_from(row.max_in_flight).unwrap_or(1),
        ordered: row.ordered,
        breaker: Breaker::stored(row.failures.unsigned_abs(), row.probes.map(i32::unsigned_abs)),
        version: row.changed_at,
    }))
}

/// Makes a lease last [`LEASE`] from before this was called. `false`: it is lost, or the webhook is no longer active,
/// or was changed.
pub async fn renew(db: &Database, lease: &Lease) -> Result<bool, Problem> {
    let renewed = sqlx::query!(
        "UPDATE webhook_lane l SET leased_until = now() + make_interval(secs => $3)
         FROM webhook w
         WHERE l.webhook_id = $1 AND l.token = $2 AND w.id = l.webhook_id AND w.active AND w.changed_at = $4",
        lease.webhook,
        lease.token,
        LEASE.as_secs_f64(),
        lease.version,
    )
    .execute(&db.main)
    .await?
    .rows_affected();
    Ok(renewed == 1)
}

/// Gives a lease back, then says whether something is due: whoever came meanwhile found the lane leased and went away.
pub async fn release(db: &Database, lease: &Lease) -> Result<bool, Problem> {
    sqlx::query!(
        "UPDATE webhook_lane SET leased_until = '-infinity' WHERE webhook_id = $1 AND token = $2",
        lease.webhook,
        lease.token,
    )
    .execute(&db.main)
    .await?;
    // a statement of its own: its snapshot must be newer than the release
    let due = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM webhook w JOIN webhook_lane l ON l.webhook_id = w.id
                          WHERE w.id = $1 AND w.active AND (l.probe_at IS NULL OR l.probe_at <= now()))
              AND EXISTS (SELECT FROM delivery d WHERE d.webhook_id = $1 AND d.next_attempt_at <= now())
              AND (NOT $2 OR coalesce((SELECT t.next_attempt_at <= now() FROM delivery t
                                       WHERE t.webhook_id = $1 AND t.attempt_count > 0
                                       ORDER BY t.created_at, t.id LIMIT 1), true)) AS "due!""#,
        lease.webhook,
        lease.ordered,
    )
    .fetch_one(&db.main)
    .await?;
    Ok(due)
}

/// Up to [`BATCH`] deliveries that are due, oldest first, with their events; and where it ended, when there may be
/// more. Nothing without a live lease, or once the breaker has opened.
///
/// An ordered lane has no cursor: its order is that of the events. What was tried comes first, and while the oldest of
/// that is not due, nothing is.
pub async fn fetch(db: &Database, lease: &Lease, from: From) -> Result<(Vec<Due>, Option<Cursor>), Problem> {
    if lease.ordered {
        let in_hand = match from {
            From::Start { in_hand } => in_hand,
            From::After(_) => Vec::new(),
        };
        return Ok((fetch_ordered(db, lease, &in_hand).await?, None));
    }
    let (after, in_hand) = match from {
        From::Start { in_hand } => (None, in_hand),
        From::After(cursor) => (Some(cursor), Vec::new()),
    };
    // The events are looked up one by one by their key: a join may be planned as a scan while tables are fresh.
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT d.id AS "id!", d.event_id AS "event_id!", d.attempt_count AS "attempt_count!",
                  d.next_attempt_at AS "next_attempt_at!", e.type AS "event_type?", e.entity_id AS "entity_id?",
                  e.at AS "at?", e.data AS "data?", e.request_id AS "request_id?", e.traceparent AS "traceparent?"
           FROM (
               SELECT id, event_id, attempt_count, next_attempt_at FROM delivery
               WHERE webhook_id = $1 AND next_attempt_at <= now()
                 AND (next_attempt_at, id) > ($3, $4) AND id <> ALL ($5)
                 AND (SELECT true FROM webhook_lane l JOIN webhook w ON w.id = l.webhook_id
                      WHERE l.webhook_id = $1 AND l.token = $2 AND w.active
                        AND (l.probe_at IS NULL OR l.probe_at <= now()))
               ORDER BY next_attempt_at, id LIMIT $6
           ) d
           LEFT JOIN LATERAL (
               SELECT type, entity_id, at, data::text AS data, request_id, traceparent
               FROM event WHERE event.id = d.event_id OFFSET 0
           ) e ON true
           ORDER BY d.next_attempt_at, d.id"#,
        lease.webhook,
        lease.token,
        after.map_or(DateTime::UNIX_EPOCH, |c| c.next_attempt_at),
        after.map_or(Uuid::nil(), |c| c.id),
        &in_hand,
        i64::try_from(BATCH).map_err(Problem::internal)?,
    )
    .fetch_all(&db.main)
    .await?;
    let cursor = (rows.len() == BATCH)
        .then(|| rows.last().map(|r| Cursor { next_attempt_at: r.next_attempt_at, id: r.id }))
        .flatten();
    Ok((rows.into_iter().map(Due::from).collect(), cursor))
}

async fn fetch_ordered(db: &Database, lease: &Lease, in_hand: &[Uuid]) -> Result<Vec<Due>, Problem> {
    let rows = sqlx::query_as!(
        Row,
        r#"WITH tried AS MATERIALIZED (
               SELECT id, event_id, attempt_count, next_attempt_at, created_at FROM delivery
               WHERE webhook_id = $1 AND attempt_count > 0 AND id <> ALL ($3)
               ORDER BY created_at, id LIMIT $4
           ), ready AS (
               SELECT tried.*, bool_and(next_attempt_at <= now()) OVER (ORDER BY created_at, id) AS ready FROM tried
           ), fresh AS (
               SELECT id, event_id, attempt_count, next_attempt_at, created_at FROM delivery
               WHERE webhook_id = $1 AND next_attempt_at <= now() AND attempt_count = 0 AND id <> ALL ($3)
                 AND NOT EXISTS (SELECT FROM tried)
               ORDER BY next_attempt_at, id LIMIT $4
           ), d AS (
               SELECT id, event_id, attempt_count, next_attempt_at, created_at FROM ready WHERE ready
               UNION ALL SELECT * FROM fresh
           )
           SELECT d.id AS "id!", d.event_id AS "event_id!", d.attempt_count AS "attempt_count!",
                  d.next_attempt_at AS "next_attempt_at!", e.type AS "event_type?", e.entity_id AS "entity_id?",
                  e.at AS "at?", e.data AS "data?", e.request_id AS "request_id?", e.traceparent AS "traceparent?"
           FROM d
           LEFT JOIN LATERAL (
               SELECT type, entity_id, at, data::text AS data, request_id, traceparent
               FROM event WHERE event.id = d.event_id OFFSET 0
           ) e ON true
           WHERE (SELECT true FROM webhook_lane l JOIN webhook w ON w.id = l.webhook_id
                  WHERE l.webhook_id = $1 AND l.token = $2 AND w.active
                    AND (l.probe_at IS NULL OR l.probe_at <= now()))
           ORDER BY d.created_at, d.id"#,
        lease.webhook,
        lease.token,
        in_hand,
        i64::try_from(BATCH).map_err(Problem::internal)?,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(rows.into_iter().map(Due::from).collect())
}

struct Row {
    id: Uuid,
    event_id: Uuid,
    attempt_count: i16,
    next_attempt_at: DateTime<Utc>,
    event_type: Option<String>,
    entity_id: Option<Uuid>,
    at: Option<DateTime<Utc>>,
    data: Option<String>,
    request_id: Option<String>,
    traceparent: Option<String>,
}

impl std::convert::From<Row> for Due {
    fn from(row: Row) -> Self {
        let event = match (row.event_type, row.entity_id, row.at, row.data) {
            (Some(kind), Some(entity), Some(at), Some(data)) => {
                let (request_id, traceparent) = (row.request_id, row.traceparent);
                Some(Event { id: row.event_id, kind, entity, at, data, request_id, traceparent })
            }
            _ => None,
        };
        Self { id: row.id, event, attempts: usize::try_from(row.attempt_count).unwrap_or(0) }
    }
}

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
