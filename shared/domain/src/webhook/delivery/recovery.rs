//! Recovering: everything that did not succeed since a time is sent again, each event once. It is a job that goes over what there
//! is step by step ([`walking`]), so that a million deliveries are recovered in short transactions and in constant memory.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Deliveries;
use super::probe_now;
use crate::job::chunk::Claim;
use crate::job::execution::Fate;
use crate::job::kind::{Job, JobKind, Shop, Unusable};
use crate::job::walking::{self, Step};
use crate::webhook::subscription;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::database::Database;
use longshore_kernel::figure::counted;
use longshore_kernel::ids::{DeliveryId, WebhookId};
use longshore_kernel::input::{Reader, Rule, object, timestamp};
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Deliveries of each sort that one step looks at. The queries name it as a number: of a parameter the planner expects a tenth of
/// all that there is.
const STEP: usize = 2_000;

/// Deliveries of each sort that are counted beforehand.
pub const COUNTED: i64 = 10_000;

/// Sends again what did not succeed at a webhook.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recover {
    /// What was made until then, and ended since.
    pub deliveries: Deliveries,
}

impl Job for Recover {
    const KIND: JobKind = JobKind::WebhookRecover;
    type Owner = ();
}

/// Recovers a webhook (`POST /api/eshop-webhook/{id}/recover {"since"}`), by a job:
///
/// - what waits to be tried again is due now: it is *released*;
/// - what has ended without success since then gets a new delivery of the same event: it is *resent*, once however often it was
///   tried, and not where a redelivery succeeded, or is on its way, or the event is no longer kept.
pub async fn recover(
    services: &Services,
    context: &Context,
    id: WebhookId,
    body: Value,
) -> Result<Answer, Problem> {
    let since = Reader::read(body, self::body())?;
    let known = count(&services.db, id, since).await?;
    let mut change = Change::begin(services).await?;
    let webhook = subscription::lock(&mut change, services, context.scope(), id).await?;
    let deliveries = Deliveries { ended_since: Some(since), ..made_by_now(&mut change, id).await? };
    let shop = Shop { organisation: webhook.organisation, eshop: webhook.eshop };
    let known = i32::try_from(known.waiting + known.ended).unwrap_or(i32::MAX);
    walking::accept(change, context, &Recover { deliveries }, shop, known).await
}

/// The body of a recovery: since when.
pub fn body() -> impl Rule<Out = DateTime<Utc>> {
    object(|object| object.required("since", timestamp()))
}

/// The deliveries of a webhook that were made by now: what comes later, also by the job itself, is none of its items.
pub(super) async fn made_by_now(
    change: &mut Change<'_>,
    webhook: WebhookId,
) -> Result<Deliveries, sqlx::Error> {
    let now = sqlx::query_scalar!(r#"SELECT now() AS "now!""#).fetch_one(change.connection()).await?;
    Ok(Deliveries::made_by(webhook, now))
}

/// What a recovery would find, each sort counted up to [`COUNTED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Deliveries that wait to be tried again.
    pub waiting: i64,
    /// Deliveries that have ended without success.
    pub ended: i64,
}

/// Counts it. The caller must have access to the webhook.
pub async fn count(db: &Database, webhook: WebhookId, since: DateTime<Utc>) -> Result<Known, Problem> {
    let found = sqlx::query_as!(
        Known,
        r#"SELECT (SELECT count(*) FROM (
                       SELECT FROM delivery WHERE webhook_id = $1 AND attempt_count > 0 AND next_attempt_at > now() LIMIT $3) AS w
                  ) AS "waiting!",
                  (SELECT count(*) FROM (
                       SELECT FROM delivery_history
                       WHERE webhook_id = $1 AND state <> 'delivered' AND finished_at >= $2 LIMIT $3) AS e
                  ) AS "ended!""#,
        webhook.get(),
        since,
        COUNTED,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(found)
}

/// Where a step begins.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Place {
    /// Among those that wait, behind this one.
    Waiting { made_at: DateTime<Utc>, id: DeliveryId },
    /// Among those that have ended, behind this one.
    Ended { at: DateTime<Utc>, id: DeliveryId },
}

impl Place {
    const START: Self = Self::Waiting { made_at: DateTime::UNIX_EPOCH, id: DeliveryId::nil() };
}

/// What a batch came to.
struct Batch {
    looked_at: i64,
    found: i64,
    changed: i64,
    last_at: Option<DateTime<Utc>>,
    last: Option<DeliveryId>,
}

impl Batch {
    /// Where it ended, where there may be more.
    fn full(&self) -> Option<(DateTime<Utc>, DeliveryId)> {
        if usize::try_from(self.looked_at).ok()? < STEP { None } else { self.last_at.zip(self.last) }
    }
}

/// Takes one step of a recovery: first waiting deliveries, then ended ones, so that deliveries that end in between are not
/// missed.
pub async fn step(
    change: &mut Change<'_>,
    claim: &Claim,
    Recover { deliveries: about }: &Recover,
) -> Result<Step, Fate> {
    let is_first = claim.payload.is_empty();
    let mut place = if is_first {
        Place::START
    } else {
        serde_json::from_slice(&claim.payload).map_err(|error| Unusable::parameters(claim, error))?
    };
    // a concurrent recovery or redelivery waits here, so that no delivery is created twice
    let webhook = sqlx::query!("SELECT active FROM webhook WHERE id = $1 FOR UPDATE", about.webhook.get())
        .fetch_optional(change.connection())
        .await?
        .ok_or_else(|| Fate::Discard("the webhook was deleted".to_owned()))?;
    if is_first {
        probe_now(change.connection(), about.webhook).await?;
    }
    let mut step = Step::default();
    let mut next = None;
    if let Place::Waiting { made_at, id } = place {
        let batch = release(change, about, made_at, id).await?;
        step.found += in_i32(batch.found);
        step.released = in_i32(batch.changed);
        place = Place::Ended { at: about.ended_since.unwrap_or_default(), id: DeliveryId::nil() };
        next = batch.full().map(|(made_at, id)| Place::Waiting { made_at, id });
    }
    if let (None, Place::Ended { at, id }) = (next, place) {
        let batch = resend(change, about, at, id).await?;
        step.found += in_i32(batch.found);
        step.resent = in_i32(batch.changed);
        next = batch.full().map(|(at, id)| Place::Ended { at, id });
    }
    if step.released + step.resent > 0 {
        record(change, &claim.origin, about, &step).await?;
    }
    if webhook.active {
        change.note_lanes([about.webhook]);
    }
    step.next = match next {
        Some(place) => Some(serde_json::to_vec(&place).map_err(|error| Fate::Discard(error.to_string()))?),
        None => None,
    };
    Ok(step)
}

fn in_i32(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Lets be due now what waits to be tried again.
async fn release(
    change: &mut Change<'_>,
    about: &Deliveries,
    made_at: DateTime<Utc>,
    id: DeliveryId,
) -> Result<Batch, sqlx::Error> {
    sqlx::query_as!(
        Batch,
        r#"WITH batch AS MATERIALIZED (
               SELECT id, created_at, next_attempt_at > now() AS waits FROM delivery
               WHERE webhook_id = $1 AND attempt_count > 0 AND (created_at, id) > ($2, $3) AND created_at <= $4
               ORDER BY created_at, id LIMIT 2000
           ), released AS (
               UPDATE delivery SET next_attempt_at = now()
               WHERE id IN (
                   SELECT id FROM delivery
                   WHERE id = ANY (ARRAY(SELECT id FROM batch WHERE waits)) AND attempt_count > 0 AND next_attempt_at > now()
                   -- what is being recorded has just been tried
                   FOR UPDATE SKIP LOCKED)
               RETURNING 1
           ), last AS (
               SELECT created_at, id FROM batch ORDER BY created_at DESC, id DESC LIMIT 1
           )
           SELECT (SELECT count(*) FROM batch) AS "looked_at!", (SELECT count(*) FROM batch WHERE waits) AS "found!",
                  (SELECT count(*) FROM released) AS "changed!", (SELECT created_at FROM last) AS last_at,
                  (SELECT id FROM last) AS "last: DeliveryId""#,
        about.webhook.get(),
        made_at,
        id.get(),
        about.made_by,
    )
    .fetch_one(change.connection())
    .await
}

/// Sends again what has ended without success.
// What became of each event is looked up one by one by its key: a join may be planned as all of a batch with all that is on its
// way, and the next step as even more.
async fn resend(
    change: &mut Change<'_>,
    about: &Deliveries,
    at: DateTime<Utc>,
    id: DeliveryId,
) -> Result<Batch, sqlx::Error> {
    sqlx::query_as!(
        Batch,
        r#"WITH batch AS MATERIALIZED (
               SELECT id, event_id, finished_at FROM delivery_history
               WHERE webhook_id = $1 AND state <> 'delivered' AND finished_at >= $2 AND (finished_at, id) > ($2, $3)
                 AND created_at <= $4
               ORDER BY finished_at, id LIMIT 2000
           ), failed AS (
               SELECT DISTINCT ON (b.event_id) b.event_id, b.id
               FROM batch b
               CROSS JOIN LATERAL (SELECT FROM event e WHERE e.id = b.event_id OFFSET 0) kept
               LEFT JOIN LATERAL (
                   SELECT true AS sent FROM delivery d
                   WHERE d.webhook_id = $1 AND d.event_id = b.event_id AND d.redelivery_of IS NOT NULL LIMIT 1
               ) on_its_way ON true
               LEFT JOIN LATERAL (
                   -- one that succeeded, or that failed in its turn, and stands for this one
                   SELECT true AS sent FROM delivery_history d
                   WHERE d.webhook_id = $1 AND d.event_id = b.event_id AND d.redelivery_of IS NOT NULL
                     AND (d.state = 'delivered' OR (d.id > b.id AND d.created_at <= $4)) LIMIT 1
               ) later ON true
               WHERE on_its_way.sent IS NULL AND later.sent IS NULL
               ORDER BY b.event_id, b.id DESC
           ), in_order AS (
               -- due at once, and one behind the other, in the order of the events
               SELECT event_id, id,
                      now() + interval '1 microsecond' * (row_number() OVER (ORDER BY event_id) - 1) AS due_at
               FROM failed
           ), made AS (
               INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, redelivery_of, created_at)
               SELECT uuid_v7(), $1, (SELECT eshop_id FROM webhook WHERE id = $1), event_id, due_at, id, due_at FROM in_order
               RETURNING 1
           ), last AS (
               SELECT finished_at, id FROM batch ORDER BY finished_at DESC, id DESC LIMIT 1
           )
           SELECT (SELECT count(*) FROM batch) AS "looked_at!", (SELECT count(*) FROM batch) AS "found!",
                  (SELECT count(*) FROM made) AS "changed!", (SELECT finished_at FROM last) AS last_at,
                  (SELECT id FROM last) AS "last: DeliveryId""#,
        about.webhook.get(),
        at,
        id.get(),
        about.made_by,
    )
    .fetch_one(change.connection())
    .await
}

async fn record(
    change: &mut Change<'_>,
    origin: &Origin,
    about: &Deliveries,
    step: &Step,
) -> Result<(), sqlx::Error> {
    let recorded = record_change!(
        change.connection(),
        origin,
        "webhook.recover",
        subscription::ENTITY,
        None,
        "WITH changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('recoveredSince', jsonb_build_array(NULL, $10::timestamptz),
                        'released', jsonb_build_array(NULL, $11::int), 'resent', jsonb_build_array(NULL, $12::int)) AS changes,
                    '{}'::jsonb AS data
             FROM webhook WHERE id = $9
         )",
        about.webhook.get(),
        about.ended_since,
        step.released,
        step.resent,
    )
    .await?;
    change.note(recorded);
    Ok(())
}

/// What became of a job that sends again, in a sentence.
#[must_use]
pub fn outcome(kind: &str, released: i64, resent: i64) -> Option<String> {
    match kind.parse().ok()? {
        JobKind::WebhookRecover => {
            let released = match released {
                0 => "No waiting deliveries to release".to_owned(),
                count => format!("{} released", counted(count, "waiting delivery", "waiting deliveries")),
            };
            let resent = match resent {
                0 => "no failed ones to resend".to_owned(),
                count => format!("{} resent", counted(count, "failed one", "failed ones")),
            };
            Some(format!("{released}; {resent}."))
        }
        JobKind::WebhookRedeliver => Some(format!("{} resent.", counted(resent, "delivery", "deliveries"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_counts_released_and_resent_deliveries() {
        let outcome = |kind, released, resent| outcome(kind, released, resent).unwrap_or_default();
        assert_eq!(
            outcome("webhook.recover", 1_140, 0),
            "1,140 waiting deliveries released; no failed ones to resend."
        );
        assert_eq!(
            outcome("webhook.recover", 0, 1),
            "No waiting deliveries to release; 1 failed one resent."
        );
        assert_eq!(outcome("webhook.redeliver", 0, 61_000), "61,000 deliveries resent.");
        assert_eq!(outcome("product.sync", 0, 0), "");
    }
}
