//! Leasing lanes, one holder each.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use http::{HeaderName, HeaderValue};
use tokio::time::Instant;
use uuid::Uuid;

use super::found::{self, FEW, Found};
use crate::calling::breaker::Breaker;
use crate::calling::signature::Signer;
use crate::calling::{LEASE, PostgresTime, renewal};
use crate::webhook::subscription::stored;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{DeliveryId, EventId, OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// A leased lane, and what is needed to send.
#[derive(Debug)]
pub struct Lease {
    /// The webhook.
    pub webhook: WebhookId,
    /// Fencing token of this lease.
    pub token: i64,
    /// Whose it is.
    pub organisation: OrganisationId,
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
    /// It sends batches.
    pub batches: bool,
    /// How many calls may begin in a second.
    pub rate: Option<f64>,
    /// The members of `data` that it is sent; nothing: all.
    pub select: Option<Vec<String>>,
    /// It is told of all e-shops of its organisation, and which of them an event concerns.
    pub of_organisation: bool,
    /// The state of its breaker. Where it is open, its pause is over: one probe may be sent.
    pub breaker: Breaker,
    /// The version of the subscription that this is of.
    pub version: DateTime<Utc>,
    /// How often its secret had been rotated when the secrets were read.
    pub rotations: i32,
    /// Where a look from the start begins: no open delivery is before it.
    pub nothing_before: DateTime<Utc>,
    /// The clock for the timestamps of calls.
    pub time: PostgresTime,
}

/// A lane that was leased.
#[derive(Debug)]
pub struct Leased {
    /// Its lease.
    pub lease: Lease,
    /// The lease holds until then at least, unless it is renewed.
    pub until: Instant,
    /// The first deliveries; nothing if a separate fetch is needed.
    pub first: Option<Found>,
}

/// Leases those of these lanes for [`LEASE`], from before this was called, that are free: not those whose webhook is not
/// active (or gone), that are leased, or whose next probe is not due. One whose secrets cannot be opened is leased, and a
/// problem.
///
/// With each comes what it sends first: up to [`FEW`] deliveries, as [`fetch`](super::fetch()) finds them from the start.
/// It returns no deliveries if a separate fetch is needed: for an ordered lane, for one that sends batches, for a probe by what was tried before, and for
/// a lane that was not released before this statement began, because the statement may not see the last records of the
/// previous holder.
///
/// It does not wait for the disk: a lease that a crash of Postgres undoes was lost as its holder finds out, since its
/// token, which counts microseconds, is never issued again. Nor does it wait for a locked lane: the worker that leases it
/// will send, and the one that releases it checks for due deliveries afterwards.
pub async fn lease(
    services: &Services,
    webhooks: &[WebhookId],
) -> Result<HashMap<WebhookId, Result<Leased, Problem>>, Problem> {
    let until = Instant::now() + LEASE;
    let mut rows = sqlx::query_as!(
        Row,
        r#"WITH free AS MATERIALIZED (
               SELECT l.webhook_id, l.token AS was FROM webhook_lane l
               WHERE l.webhook_id = ANY ($1) AND l.leased_until < now() AND coalesce(greatest(l.probe_at, l.held_until, rests_until(l.paid_until)) <= now(), true)
                 -- Of a webhook whose secret is being rotated, the lane is read as the rotation left it, and the webhook as it was
                 -- before: such a lease would sign with the secrets of before.
                 AND (SELECT w.active AND w.rotations = l.rotations FROM webhook w WHERE w.id = l.webhook_id)
               ORDER BY l.webhook_id FOR NO KEY UPDATE SKIP LOCKED
           ), leased AS (
               UPDATE webhook_lane l
               SET token = greatest(l.token + 1, (extract(epoch FROM clock_timestamp()) * 1e6)::bigint),
                   leased_until = now() + make_interval(secs => $2), ending = false,
                   -- one that was not given back may still begin what it has paid for, also if the clock was set since
                   paid_until = CASE WHEN l.leased_until > '-infinity' THEN greatest(l.paid_until, now() + (
                       SELECT make_interval(secs => 2 + 1 / w.max_per_second::float8) FROM webhook w WHERE w.id = l.webhook_id))
                       ELSE l.paid_until END
               WHERE l.webhook_id = ANY (ARRAY(SELECT webhook_id FROM free))
                 AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
               RETURNING l.webhook_id, l.token, l.rotations, l.failures, l.nothing_before, CASE WHEN l.probe_at IS NOT NULL THEN l.probes END AS probes
           )
           SELECT leased.webhook_id, leased.token, leased.rotations, leased.failures, leased.probes,
                  leased.nothing_before, clock_timestamp() AS "now!", w.organisation_id AS "organisation_id!",
                  w.destination AS "destination!", w.authentication, w.secret AS "secret!",
                  w.former_secrets AS "former_secrets!", w.max_in_flight AS "max_in_flight!", w.ordered AS "ordered!", w.batch_events IS NOT NULL AS "batches!", w.max_per_second::float8, w.selected, w.eshop_id AS "eshop_id?", w.changed_at AS "changed_at!",
                  before.given_back AS "given_back!", d.id AS "delivery_id?: DeliveryId", d.event_id AS "event_id?: EventId",
                  d.attempt_count AS "attempt_count?", d.next_attempt_at AS "next_attempt_at?", e.type AS "event_type?",
                  e.entity_id AS "entity_id?", e.at AS "at?", e.data AS "data?", e.eshops AS "eshops?", e.request_id AS "request_id?",
                  e.traceparent AS "traceparent?"
           FROM leased
           CROSS JOIN LATERAL (
               SELECT *, ARRAY(SELECT f.secret FROM webhook_former_secret f
                               WHERE f.webhook_id = webhook.id AND f.signs_until > now()
                               ORDER BY f.signs_until DESC) AS former_secrets
               FROM webhook WHERE webhook.id = leased.webhook_id OFFSET 0
           ) w
           CROSS JOIN LATERAL (
               -- as it was when the statement began, unless another worker had a turn between that and the lock
               SELECT leased_until = '-infinity'
                      AND token = (SELECT was FROM free WHERE free.webhook_id = leased.webhook_id) AS given_back
               FROM webhook_lane
               WHERE webhook_lane.webhook_id = leased.webhook_id OFFSET 0
           ) before
           LEFT JOIN LATERAL (
               SELECT id, event_id, attempt_count, next_attempt_at FROM delivery
               WHERE webhook_id = leased.webhook_id AND next_attempt_at <= now() AND next_attempt_at >= leased.nothing_before
                 AND before.given_back AND NOT w.ordered AND w.batch_events IS NULL
               ORDER BY next_attempt_at, id LIMIT 16
           ) d ON true
           LEFT JOIN LATERAL (
               SELECT type, entity_id, at, data::text AS data, eshops, request_id, traceparent
               FROM event WHERE event.id = d.event_id OFFSET 0
           ) e ON true
           ORDER BY leased.webhook_id, d.next_attempt_at, d.id"#,
        webhooks as &[WebhookId],
        LEASE.as_secs_f64(),
    )
    .fetch_all(&services.db.main)
    .await?;
    let read = Instant::now();
    let lanes = rows.chunk_by_mut(|row, next| row.webhook_id == next.webhook_id);
    let leased = lanes.map(|rows| {
        let due: Vec<_> = rows.iter_mut().filter_map(Row::take_due).collect();
        let row = &rows[0];
        let comes_with = row.given_back && !row.ordered && !row.batches && !row.breaker().probes_again();
        let first = comes_with.then(|| Found::of(row.webhook_id, due, FEW));
        (row.webhook_id, row.open(services, read).map(|lease| Leased { lease, until, first }))
    });
    Ok(leased.collect())
}

/// A leased lane, with one of the deliveries that it sends first.
struct Row {
    webhook_id: WebhookId,
    token: i64,
    rotations: i32,
    organisation_id: OrganisationId,
    destination: String,
    authentication: Option<Vec<u8>>,
    secret: Vec<u8>,
    former_secrets: Vec<Vec<u8>>,
    max_in_flight: i32,
    ordered: bool,
    batches: bool,
    max_per_second: Option<f64>,
    selected: Option<Vec<String>>,
    eshop_id: Option<Uuid>,
    changed_at: DateTime<Utc>,
    failures: i32,
    probes: Option<i32>,
    nothing_before: DateTime<Utc>,
    now: DateTime<Utc>,
    given_back: bool,
    delivery_id: Option<DeliveryId>,
    event_id: Option<EventId>,
    attempt_count: Option<i16>,
    next_attempt_at: Option<DateTime<Utc>>,
    event_type: Option<String>,
    entity_id: Option<Uuid>,
    at: Option<DateTime<Utc>>,
    data: Option<String>,
    eshops: Option<Vec<Uuid>>,
    request_id: Option<String>,
    traceparent: Option<String>,
}

impl Row {
    fn take_due(&mut self) -> Option<found::Row> {
        Some(found::Row {
            id: self.delivery_id?,
            event_id: self.event_id?,
            attempt_count: self.attempt_count?,
            next_attempt_at: self.next_attempt_at?,
            last_status: None,
            event_type: self.event_type.take(),
            entity_id: self.entity_id,
            at: self.at,
            data: self.data.take(),
            eshops: self.eshops.take(),
            request_id: self.request_id.take(),
            traceparent: self.traceparent.take(),
        })
    }

    fn breaker(&self) -> Breaker {
        Breaker::stored(self.failures.unsigned_abs(), self.probes.map(i32::unsigned_abs))
    }

    fn open(&self, services: &Services, read: Instant) -> Result<Lease, Problem> {
        let webhook = self.webhook_id;
        let secrets = std::iter::once(&self.secret)
            .chain(&self.former_secrets)
            .map(|sealed| stored::open_secret(&services.vault, webhook, sealed))
            .collect::<Result<Vec<_>, _>>()?;
        let authentication = match &self.authentication {
            Some(sealed) => stored::open_authentication(&services.vault, webhook, sealed)?.header(),
            None => None,
        };
        Ok(Lease {
            webhook,
            token: self.token,
            organisation: self.organisation_id,
            destination: self.destination.clone(),
            signer: Signer::new(secrets),
            authentication,
            max_in_flight: usize::try_from(self.max_in_flight).unwrap_or(1),
            ordered: self.ordered,
            batches: self.batches,
            rate: self.max_per_second,
            select: self.selected.clone(),
            of_organisation: self.eshop_id.is_none(),
            breaker: self.breaker(),
            version: self.changed_at,
            rotations: self.rotations,
            nothing_before: self.nothing_before,
            time: PostgresTime::new(self.now, read),
        })
    }
}

renewal!(
    "webhook_lane",
    "webhook_id",
    webhook,
    "coalesce(l.held_until <= now(), true)",
    "EXISTS (SELECT FROM webhook w WHERE w.id = l.webhook_id AND w.active AND w.changed_at = $4)",
);

/// Gives leases back, by webhook and token, then returns which of these webhooks have due deliveries: another worker may
/// have found the lane leased in the meantime and skipped it.
pub async fn release(db: &Database, leases: &[(WebhookId, i64)]) -> Result<HashSet<WebhookId>, Problem> {
    let mut leases = leases.to_vec();
    let mut connection = db.main.acquire().await?;
    // locked in the order of their keys, the common order of locks
    leases.sort_unstable();
    let (webhooks, tokens): (Vec<_>, Vec<_>) = leases.into_iter().unzip();
    sqlx::query!(
        "WITH held AS MATERIALIZED (
             SELECT l.webhook_id FROM unnest($1::uuid[], $2::bigint[]) AS g (webhook_id, token)
             CROSS JOIN LATERAL (
                 SELECT webhook_id FROM webhook_lane
                 WHERE webhook_lane.webhook_id = g.webhook_id AND webhook_lane.token = g.token FOR NO KEY UPDATE
             ) l
         )
         UPDATE webhook_lane l
         SET leased_until = '-infinity',
             -- What an older transaction commits late lies before the time of that commit. One that takes longer than this leaves
             -- something below, which the look over all lanes finds.
             nothing_before = greatest(l.nothing_before, least(now() - interval '10 seconds', (
                 SELECT d.next_attempt_at FROM delivery d
                 WHERE d.webhook_id = l.webhook_id AND d.next_attempt_at >= l.nothing_before
                 ORDER BY d.next_attempt_at, d.id LIMIT 1)))
         WHERE webhook_id = ANY (ARRAY(SELECT webhook_id FROM held))
           AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'",
        &webhooks as &[WebhookId],
        &tokens,
    )
    .execute(&mut *connection)
    .await?;
    // a separate statement: its snapshot must be newer than the release
    let due = sqlx::query_scalar!(
        r#"SELECT g.id AS "id!: WebhookId" FROM unnest($1::uuid[]) AS g (id)
           CROSS JOIN LATERAL (
               SELECT w.ordered, l.nothing_before FROM webhook w JOIN webhook_lane l ON l.webhook_id = w.id
               WHERE w.id = g.id AND w.active AND coalesce(greatest(l.probe_at, l.held_until, rests_until(l.paid_until)) <= now(), true) OFFSET 0
           ) lane
           WHERE EXISTS (SELECT FROM delivery d WHERE d.webhook_id = g.id AND d.next_attempt_at <= now()
                           AND d.next_attempt_at >= lane.nothing_before)
             AND (NOT lane.ordered OR coalesce((SELECT t.next_attempt_at <= now() FROM delivery t
                                                WHERE t.webhook_id = g.id AND t.attempt_count > 0
                                                ORDER BY t.created_at, t.id LIMIT 1), true))"#,
        &webhooks as &[WebhookId],
    )
    .fetch_all(&mut *connection)
    .await?;
    Ok(due.into_iter().collect())
}
