//! Replaying: the deliveries of several webhooks that match are sent again, each event once at each webhook. First they are counted
//! ([`count`]); then a job goes over them, a walk for each webhook, whose steps take turns ([`walking`]), so that a webhook with a
//! million deliveries holds up no other. What a step sends is in `resending`.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::resending::{Audited, COUNTED, Cursor, Walk, in_i32};
use super::{Deliveries, begun_at};
use crate::job::chunk::Claim;
use crate::job::kind::{Job, JobKind, Unusable};
use crate::job::outcome::Fate;
use crate::job::walking::{self, Step, Walks};
use crate::webhook::event;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId, TokenId, WebhookId};
use longshore_kernel::input::{Object, Reader, Rule, array, boolean, id, object, one_of, text, timestamp};
use longshore_kernel::problem::{Problem, Violation};
use longshore_kernel::services::Services;

/// Webhooks that can be named.
pub const NAMED: usize = 1_000;
/// Webhooks of one replay.
pub const WEBHOOKS: i64 = 10_000;
/// Deliveries of each sort that are counted for a page, which must not take long: fewer than [`COUNTED`].
pub const COUNTED_AT_ONCE: i64 = 5_000;

/// Which deliveries are replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Criteria {
    /// Of these webhooks; empty: of all that match otherwise.
    pub webhooks: Vec<WebhookId>,
    /// Of this e-shop.
    pub eshop: Option<EshopId>,
    /// To this host.
    pub host: Option<String>,
    /// Ended at this moment or later.
    pub since: DateTime<Utc>,
    /// Ended before this moment.
    pub until: Option<DateTime<Utc>>,
    /// Those that were delivered as well.
    pub delivered: bool,
    /// Of this type of event.
    pub event: Option<&'static str>,
}

/// The body of a replay, and of its count.
pub fn body() -> impl Rule<Out = Criteria> {
    object(members)
}

fn members(object: &mut Object<'_>) -> Option<Criteria> {
    if !["webhooks", "eshop", "host"].iter().any(|name| object.has(name)) {
        object.refuse("webhooks", "required", "is required, or eshop, or host");
    }
    let webhooks = object.optional("webhooks", array(1..=NAMED, id()));
    let eshop = object.optional("eshop", id());
    let host = object.optional("host", text(1..=253));
    let since = object.required("since", timestamp());
    let until = object.optional("until", timestamp());
    let delivered = object.optional_or("delivered", boolean(), false);
    let event = object.optional("event", one_of(event::NAMES));
    if until.zip(since).is_some_and(|(until, since)| until <= since) {
        object.refuse("until", "out_of_range", "must be after since");
    }
    Some(Criteria {
        webhooks: webhooks.unwrap_or_default().into_iter().map(WebhookId::from).collect(),
        eshop: eshop.map(EshopId::from),
        host: host.map(|host| host.to_lowercase()),
        since: since?,
        until,
        delivered,
        event,
    })
}

/// What a replay would send.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    /// Webhooks that match.
    pub webhooks: usize,
    /// Deliveries that wait to be tried again, or for their destination.
    pub waiting: i64,
    /// Events whose deliveries have ended without success.
    pub failed: i64,
    /// Events that were delivered, where these are wanted.
    pub delivered: i64,
    /// All of them.
    pub total: i64,
    /// Of a sort, as many were counted as one count may; there may be more.
    pub at_least: bool,
    /// How long sending them takes at the recent pace of the destinations; nothing where none has delivered lately.
    pub seconds: Option<f64>,
}

/// A webhook that matches, with what was counted of it.
pub(super) struct Found {
    id: WebhookId,
    organisation: OrganisationId,
    eshop: Option<EshopId>,
    calls: i32,
    waiting: i64,
    failed: i64,
    delivered: i64,
    /// How long a call takes that delivers.
    milliseconds: Option<f64>,
    at_least: bool,
}

impl Found {
    fn total(&self) -> i64 {
        self.waiting + self.failed + self.delivered
    }

    /// Seconds that its calls take.
    fn seconds(&self) -> Option<f64> {
        let [total, calls] = [self.total(), i64::from(self.calls)].map(|n| f64::from(in_i32(n)));
        Some(total * self.milliseconds? / 1e3 / calls.max(1.0))
    }
}

/// Counts what a replay would send.
pub async fn count(services: &Services, scope: &Scope, body: Value) -> Result<Count, Problem> {
    count_of(&services.db, scope, &Reader::read(body, self::body())?).await
}

/// The same, up to [`COUNTED_AT_ONCE`] of each sort.
pub async fn count_at_once(services: &Services, scope: &Scope, body: Value) -> Result<Count, Problem> {
    let criteria = Reader::read(body, self::body())?;
    Ok(sum(&find(&services.db, scope, &criteria, COUNTED_AT_ONCE).await?))
}

/// The same of criteria that were read.
pub async fn count_of(db: &Database, scope: &Scope, criteria: &Criteria) -> Result<Count, Problem> {
    Ok(sum(&find(db, scope, criteria, COUNTED).await?))
}

pub(super) fn sum(found: &[Found]) -> Count {
    let of = |sort: fn(&Found) -> i64| found.iter().map(sort).sum::<i64>();
    Count {
        webhooks: found.len(),
        waiting: of(|webhook| webhook.waiting),
        failed: of(|webhook| webhook.failed),
        delivered: of(|webhook| webhook.delivered),
        total: of(Found::total),
        at_least: found.iter().any(|webhook| webhook.at_least),
        // webhooks are sent to side by side
        seconds: found
            .iter()
            .filter(|webhook| webhook.total() > 0)
            .filter_map(Found::seconds)
            .reduce(f64::max),
    }
}

/// Replays (`POST /api/webhook-delivery/replay`), by a job.
pub async fn replay(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    replay_of(services, context, Reader::read(body, self::body())?).await
}

/// The same with criteria that were read.
pub async fn replay_of(
    services: &Services,
    context: &Context,
    criteria: Criteria,
) -> Result<Answer, Problem> {
    let found = find(&services.db, context.scope(), &criteria, COUNTED).await?;
    let known = sum(&found).total;
    // where not all was counted, nothing was found of a webhook may mean that it was not looked at
    let mut concerned: Vec<&Found> =
        found.iter().filter(|webhook| webhook.total() > 0 || webhook.at_least).collect();
    if concerned.is_empty() {
        // a job that finds nothing says so
        concerned.extend(found.first());
    }
    let mut organisations: Vec<_> = concerned.iter().map(|webhook| webhook.organisation).collect();
    organisations.sort_unstable();
    organisations.dedup();
    let eshop = concerned.first().and_then(|webhook| webhook.eshop);
    let eshop = eshop.filter(|eshop| concerned.iter().all(|webhook| webhook.eshop == Some(*eshop)));
    let mut starts = Vec::with_capacity(concerned.len());
    for webhook in &concerned {
        let start = Start { webhook: webhook.id, place: None };
        starts.push(serde_json::to_vec(&start).map_err(Problem::internal)?);
    }
    let mut change = Change::begin(services).await?;
    let job = Replay {
        made_by: begun_at(&mut change).await?,
        since: criteria.since,
        until: criteria.until,
        delivered: criteria.delivered,
        event: criteria.event.map(str::to_owned),
        host: criteria.host,
        webhooks: in_i32(i64::try_from(starts.len()).unwrap_or(i64::MAX)),
    };
    walking::accept_walks(change, context, &job, Walks { organisations, eshop, starts }, in_i32(known)).await
}

/// A webhook that matches.
struct Hook {
    id: WebhookId,
    organisation: OrganisationId,
    eshop: Option<EshopId>,
    calls: i32,
}

/// The webhooks that match, with what is counted of each, up to so many of each sort.
pub(super) async fn matching(
    db: &Database,
    scope: &Scope,
    criteria: &Criteria,
    counted: i64,
) -> Result<Vec<Found>, sqlx::Error> {
    let hooks = hooks(db, scope, criteria).await?;
    let ids: Vec<WebhookId> = hooks.iter().map(|hook| hook.id).collect();
    let counts = sqlx::query!(
        r#"WITH hook AS MATERIALIZED (
               -- where the destination fails, or asked for a pause, what is due waits for it
               SELECT id, coalesce((SELECT greatest(l.probe_at, l.held_until) > now() FROM webhook_lane l
                                    WHERE l.webhook_id = named.id), false) AS is_held,
                      (SELECT true FROM delivery d WHERE d.webhook_id = named.id AND d.redelivery_of IS NOT NULL LIMIT 1) IS TRUE
                          OR (SELECT true FROM delivery_history d
                              WHERE d.webhook_id = named.id AND d.redelivery_of IS NOT NULL LIMIT 1) IS TRUE AS has_resent
               FROM unnest($1::uuid[]) AS named (id)
           ), waiting AS MATERIALIZED (
               SELECT h.id, d.* FROM hook h CROSS JOIN LATERAL (
                   SELECT d.event_id FROM delivery d
                   WHERE d.webhook_id = h.id
                     AND CASE WHEN d.next_attempt_at > now() THEN d.attempt_count > 0 ELSE h.is_held END
                     AND d.created_at < coalesce($3::timestamptz, 'infinity') OFFSET 0
               ) AS d LIMIT $6
           ), failed AS MATERIALIZED (
               SELECT h.id, d.* FROM hook h CROSS JOIN LATERAL (
                   SELECT d.id AS delivery, d.event_id, d.event_type FROM delivery_history d
                   WHERE d.webhook_id = h.id AND d.state <> 'delivered' AND d.finished_at >= $2
                     AND d.finished_at < coalesce($3::timestamptz, 'infinity') OFFSET 0
               ) AS d LIMIT $6
           ), late AS MATERIALIZED (
               SELECT h.id, d.* FROM hook h CROSS JOIN LATERAL (
                   SELECT d.id AS delivery, d.event_id, d.event_type FROM delivery_history d
                   WHERE d.webhook_id = h.id AND d.state = 'delivered' AND d.finished_at - d.created_at > interval '1 hour'
                     AND d.finished_at >= $2 AND d.finished_at < coalesce($3::timestamptz, 'infinity') OFFSET 0
               ) AS d WHERE $5 LIMIT $6
           ), prompt AS MATERIALIZED (
               SELECT h.id, d.* FROM hook h CROSS JOIN LATERAL (
                   SELECT d.id AS delivery, d.event_id, d.event_type, d.state = 'delivered' AND d.finished_at - d.created_at <= interval '1 hour'
                          AND d.finished_at >= $2 AND d.finished_at < coalesce($3::timestamptz, 'infinity') AS matches
                   FROM delivery_history d
                   WHERE d.webhook_id = h.id AND d.id >= uuid_v7_floor($2 - interval '2 hours')
                     AND d.id < coalesce(uuid_v7_floor($3::timestamptz + interval '1 minute'), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                   OFFSET 0
               ) AS d WHERE $5 LIMIT $6
           ), ended AS MATERIALIZED (
               -- each event once, however often it was sent
               SELECT id, event_id, bool_or(has_resent) AS has_resent, bool_or(failed) AS failed, bool_or(NOT failed) AS delivered,
                      (max(delivery::text COLLATE "C") FILTER (WHERE failed AND has_resent))::uuid AS last_failed
               FROM (SELECT id, event_id, delivery, true AS failed FROM failed WHERE $4::text IS NULL OR event_type = $4
                     UNION ALL SELECT id, event_id, delivery, false FROM late WHERE $4::text IS NULL OR event_type = $4
                     UNION ALL SELECT id, event_id, delivery, false FROM prompt
                     WHERE matches AND ($4::text IS NULL OR event_type = $4)) AS d JOIN hook h USING (id)
               GROUP BY id, event_id
           ), resent AS MATERIALIZED (
               SELECT id, CASE WHEN failed THEN 2 ELSE 3 END AS sort FROM ended WHERE NOT has_resent
               UNION ALL
               -- as the steps of the job do (`resending`): what is on its way is left, and what failed if another delivery replaces it;
               -- where nothing was ever sent again, this is not asked event by event
               SELECT e.id, CASE WHEN e.failed AND later.sent IS NULL THEN 2 WHEN e.delivered THEN 3 END AS sort
               FROM ended e
               LEFT JOIN LATERAL (
                   SELECT true AS sent FROM delivery d
                   WHERE d.webhook_id = e.id AND d.event_id = e.event_id AND d.redelivery_of IS NOT NULL LIMIT 1
               ) on_its_way ON true
               LEFT JOIN LATERAL (
                   SELECT true AS sent FROM delivery_history d
                   WHERE e.failed AND d.webhook_id = e.id AND d.event_id = e.event_id AND d.redelivery_of IS NOT NULL
                     -- after the event: the partitions before it are left out
                     AND d.id > e.event_id AND (d.state = 'delivered' OR d.id > e.last_failed) LIMIT 1
               ) later ON true
               WHERE e.has_resent AND on_its_way.sent IS NULL
           ), counted AS MATERIALIZED (
               SELECT id, count(*) FILTER (WHERE sort = 1) AS waiting, count(*) FILTER (WHERE sort = 2) AS failed,
                      count(*) FILTER (WHERE sort = 3) AS delivered
               FROM (SELECT id, 1 AS sort FROM waiting
                     WHERE $4::text IS NULL OR (SELECT e.type FROM event e WHERE e.id = waiting.event_id) = $4
                     UNION ALL SELECT id, sort FROM resent) AS sorts
               GROUP BY id
           )
           SELECT coalesce(c.waiting, 0) AS "waiting!", coalesce(c.failed, 0) AS "failed!", coalesce(c.delivered, 0) AS "delivered!",
                  CASE WHEN c.id IS NOT NULL THEN (
                      SELECT avg(n.ms) FROM (
                          SELECT d.state, (d.attempts -> -1 ->> 'durationMs')::float8 AS ms FROM delivery_history d
                          WHERE d.webhook_id = ANY (ARRAY[h.id]) ORDER BY d.webhook_id DESC, d.id DESC LIMIT 100
                      ) AS n WHERE n.state = 'delivered'
                  ) END AS milliseconds,
                  $6 = ANY (ARRAY[(SELECT count(*) FROM waiting), (SELECT count(*) FROM failed), (SELECT count(*) FROM late),
                                  (SELECT count(*) FROM prompt)]) AS "at_least!"
           FROM hook h LEFT JOIN counted c ON c.id = h.id ORDER BY h.id"#,
        &ids as &[WebhookId],
        criteria.since,
        criteria.until,
        criteria.event,
        criteria.delivered,
        counted,
    )
    .fetch_all(&db.main)
    .await?;
    // both are in the order of the ids
    let found = hooks.into_iter().zip(counts).map(|(Hook { id, organisation, eshop, calls }, of)| Found {
        id,
        organisation,
        eshop,
        calls,
        waiting: of.waiting,
        failed: of.failed,
        delivered: of.delivered,
        milliseconds: of.milliseconds,
        at_least: of.at_least,
    });
    Ok(found.collect())
}

async fn hooks(db: &Database, scope: &Scope, criteria: &Criteria) -> Result<Vec<Hook>, sqlx::Error> {
    sqlx::query_as!(
        Hook,
        r#"SELECT id, organisation_id AS organisation, eshop_id AS "eshop: EshopId",
                  CASE WHEN ordered THEN 1 ELSE max_in_flight END AS "calls!"
           FROM webhook
           WHERE in_scope($1, organisation_id) AND in_eshop($2, eshop_id) AND in_scope($3, id) AND in_eshop($4, eshop_id)
             AND in_hands($7, made_by)
             AND ($5::text IS NULL
                  OR lower(substring(destination FROM '^[A-Za-z]+://(\[[^]]*\]|[^/:?#]+)')) = $5)
           ORDER BY id LIMIT $6"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        (!criteria.webhooks.is_empty()).then_some(&criteria.webhooks[..]) as Option<&[WebhookId]>,
        criteria.eshop as Option<EshopId>,
        criteria.host.as_deref(),
        WEBHOOKS + 1,
        scope.maker() as Option<TokenId>,
    )
    .fetch_all(&db.lists)
    .await
}

/// The same; a criterion that matches none is refused.
async fn find(
    db: &Database,
    scope: &Scope,
    criteria: &Criteria,
    counted: i64,
) -> Result<Vec<Found>, Problem> {
    let found = matching(db, scope, criteria, counted).await?;
    // the others narrow what was named; an id that is none of the caller's is a mistake
    if criteria.eshop.is_none() && criteria.host.is_none() {
        let known: HashSet<WebhookId> = found.iter().map(|webhook| webhook.id).collect();
        let unknown = criteria.webhooks.iter().enumerate().filter(|(_, id)| !known.contains(id));
        let violations: Vec<_> = unknown
            .map(|(place, _)| {
                Violation::new(format!("webhooks[{place}]"), "unknown_reference", "does not exist")
            })
            .collect();
        Problem::refuse(violations)?;
    }
    if found.len() > usize::try_from(WEBHOOKS).unwrap_or(usize::MAX) {
        let message = format!("must be given: more than {WEBHOOKS} match the rest");
        return Err(Problem::violation("webhooks", "invalid_count", message));
    }
    if found.is_empty() {
        let name = if criteria.host.is_some() { "host" } else { "eshop" };
        return Err(Problem::violation(name, "unknown_reference", "matches no webhook"));
    }
    Ok(found)
}

/// Sends again what matches at several webhooks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// What was made until then …
    pub made_by: DateTime<Utc>,
    /// … and ended since …
    pub since: DateTime<Utc>,
    /// … and before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
    /// Those that were delivered as well.
    #[serde(default)]
    pub delivered: bool,
    /// Of this type of event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The host that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// At so many webhooks.
    pub webhooks: i32,
}

impl Job for Replay {
    const KIND: JobKind = JobKind::WebhookReplay;
    type Owner = ();
}

/// Where a step begins: at a webhook, and at its place there.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Start {
    webhook: WebhookId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<Cursor>,
}

/// Takes one step of the walk over a webhook.
pub async fn step(change: &mut Change<'_>, claim: &Claim, replay: &Replay) -> Result<Step, Fate> {
    let start: Start =
        serde_json::from_slice(&claim.payload).map_err(|error| Unusable::parameters(claim, error))?;
    let beside = replay.webhooks - 1;
    let about = Deliveries {
        ended_since: Some(replay.since),
        ended_before: replay.until,
        event: replay.event.clone(),
        ..Deliveries::made_by(start.webhook, replay.made_by)
    };
    let audited = Audited { action: "webhook.replay", since: "replayedSince", until: Some("replayedUntil") };
    let walk = Walk { about: &about, delivered: replay.delivered, audited };
    // what a webhook leaves that was deleted is cancelled; the others go on
    let Some((step, next)) = walk.step(change, claim, start.place).await? else {
        return Ok(Step { beside, ..Step::default() });
    };
    let next = next.map(|cursor| serde_json::to_vec(&Start { place: Some(cursor), ..start })).transpose();
    Ok(Step { beside, next: next.map_err(|error| Fate::Discard(error.to_string()))?, ..step })
}
