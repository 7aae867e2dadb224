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
use longshore_kernel::figure::{counted, number};
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
    Ok(Deliveries::made_by(webhook, begun_at(change).await?))
}

/// When a change began, by the clock of Postgres.
pub(super) async fn begun_at(change: &mut Change<'_>) -> Result<DateTime<Utc>, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT now() AS "now!""#).fetch_one(change.connection()).await
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
pub(super) struct Batch {
    looked_at: i64,
    pub(super) found: i64,
    pub(super) changed: i64,
    last_at: Option<DateTime<Utc>>,
    last: Option<DeliveryId>,
}

impl Batch {
    /// Where it ended, where there may be more.
    pub(super) fn full(&self) -> Option<(DateTime<Utc>, DeliveryId)> {
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
        let batch = resend_failed(change, about, at, id).await?;
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

pub(super) fn in_i32(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Lets be due now what waits to be tried again.
pub(super) async fn release(
    change: &mut Change<'_>,
    about: &Deliveries,
    made_at: DateTime<Utc>,
    id: DeliveryId,
) -> Result<Batch, sqlx::Error> {
    sqlx::query_as!(
        Batch,
        r#"WITH batch AS MATERIALIZED (
               SELECT id, created_at,
                      next_attempt_at > now()
                      AND ($5::text IS NULL OR (SELECT e.type FROM event e WHERE e.id = delivery.event_id) = $5) AS waits
               FROM delivery
               WHERE webhook_id = $1 AND attempt_count > 0 AND (created_at, id) > ($2, $3) AND created_at <= $4
                 AND ($6::timestamptz IS NULL OR created_at < $6)
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
        about.event.as_deref(),
        about.ended_before,
    )
    .fetch_one(change.connection())
    .await
}

/// Sends again what has ended: `$batch` are the deliveries that a step looks at, `$later` says which redeliveries of its event stand
/// for one.
// What became of each event is looked up one by one by its key: a join may be planned as all of a batch with all that is on its
// way, and the next step as even more.
macro_rules! resend {
    ($batch:literal, $later:literal, $change:expr, $about:expr, $at:expr, $id:expr) => {
        sqlx::query_as!(
            Batch,
            "WITH batch AS MATERIALIZED ("
            + $batch
            + r#" LIMIT 2000
           ), ended AS (
               SELECT DISTINCT ON (b.event_id) b.event_id, b.id
               FROM batch b
               CROSS JOIN LATERAL (SELECT FROM event e WHERE e.id = b.event_id OFFSET 0) kept
               LEFT JOIN LATERAL (
                   SELECT true AS sent FROM delivery d
                   WHERE d.webhook_id = $1 AND d.event_id = b.event_id AND d.redelivery_of IS NOT NULL LIMIT 1
               ) on_its_way ON true
               LEFT JOIN LATERAL (
                   SELECT true AS sent FROM delivery_history d
                   WHERE d.webhook_id = $1 AND d.event_id = b.event_id AND d.redelivery_of IS NOT NULL AND ("#
            + $later
            + r#") LIMIT 1
               ) later ON true
               WHERE b.matches AND on_its_way.sent IS NULL AND later.sent IS NULL
               ORDER BY b.event_id, b.id DESC
           ), in_order AS (
               -- due at once, and one behind the other, in the order of the events
               SELECT event_id, id,
                      now() + interval '1 microsecond' * (row_number() OVER (ORDER BY event_id) - 1) AS due_at
               FROM ended
           ), made AS (
               INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, redelivery_of, created_at)
               SELECT uuid_v7(), $1, (SELECT eshop_id FROM webhook WHERE id = $1), event_id, due_at, id, due_at FROM in_order
               RETURNING 1
           ), last AS (
               SELECT finished_at, id FROM batch ORDER BY place DESC, id DESC LIMIT 1
           )
           SELECT (SELECT count(*) FROM batch) AS "looked_at!", (SELECT count(*) FROM batch WHERE matches) AS "found!",
                  (SELECT count(*) FROM made) AS "changed!", (SELECT finished_at FROM last) AS last_at,
                  (SELECT id FROM last) AS "last: DeliveryId""#,
            $about.webhook.get(),
            $at,
            $id.get(),
            $about.made_by,
            $about.event.as_deref(),
            $about.ended_before,
        )
        .fetch_one($change.connection())
        .await
    };
}

/// Sends again what has ended without success.
pub(super) async fn resend_failed(
    change: &mut Change<'_>,
    about: &Deliveries,
    at: DateTime<Utc>,
    id: DeliveryId,
) -> Result<Batch, sqlx::Error> {
    resend!(
        "SELECT id, event_id, finished_at, finished_at AS place, $5::text IS NULL OR event_type = $5 AS matches
         FROM delivery_history
         WHERE webhook_id = $1 AND state <> 'delivered' AND finished_at >= $2 AND (finished_at, id) > ($2, $3)
           AND created_at <= $4 AND ($6::timestamptz IS NULL OR finished_at < $6)
         ORDER BY finished_at, id",
        // one that succeeded, or that failed in its turn, and stands for this one
        "d.state = 'delivered' OR (d.id > b.id AND d.created_at <= $4)",
        change,
        about,
        at,
        id
    )
}

/// Sends again what was delivered more than an hour after it was made: an index has these, by their end.
pub(super) async fn resend_late(
    change: &mut Change<'_>,
    about: &Deliveries,
    at: DateTime<Utc>,
    id: DeliveryId,
) -> Result<Batch, sqlx::Error> {
    resend!(
        "SELECT id, event_id, finished_at, finished_at AS place, $5::text IS NULL OR event_type = $5 AS matches
         FROM delivery_history
         WHERE webhook_id = $1 AND state = 'delivered' AND finished_at - created_at > interval '1 hour'
           AND finished_at >= $2 AND (finished_at, id) > ($2, $3)
           AND created_at <= $4 AND ($6::timestamptz IS NULL OR finished_at < $6)
         ORDER BY finished_at, id",
        // one that was made since the job was accepted, or that the job finds as well
        "d.id > b.id AND (d.created_at > $4 OR (d.state = 'delivered' AND d.finished_at >= b.finished_at
             AND ($6::timestamptz IS NULL OR d.finished_at < $6)))",
        change,
        about,
        at,
        id
    )
}

/// Sends again what was delivered within an hour, in the order in which it was made.
pub(super) async fn resend_prompt(
    change: &mut Change<'_>,
    about: &Deliveries,
    since: DateTime<Utc>,
    id: DeliveryId,
) -> Result<Batch, sqlx::Error> {
    resend!(
        // a delivery has its id a moment before it is made
        "SELECT id, event_id, finished_at, id AS place,
                state = 'delivered' AND finished_at - created_at <= interval '1 hour' AND finished_at >= $2 AND created_at <= $4
                AND ($5::text IS NULL OR event_type = $5) AND ($6::timestamptz IS NULL OR finished_at < $6) AS matches
         FROM delivery_history
         WHERE webhook_id = $1 AND id > $3 AND id >= uuid_v7_floor($2::timestamptz - interval '2 hours')
           AND ($6::timestamptz IS NULL OR id < uuid_v7_floor($6 + interval '1 minute'))
         ORDER BY id",
        "d.id > b.id AND (d.created_at > $4 OR (d.state = 'delivered' AND d.finished_at >= b.finished_at
             AND ($6::timestamptz IS NULL OR d.finished_at < $6)))",
        change,
        about,
        since,
        id
    )
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

/// What a job that sends again has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentAgain {
    /// Waiting deliveries that it released.
    pub released: i64,
    /// Ended ones that it sent again.
    pub resent: i64,
    /// What it found and left.
    pub left: i64,
}

/// What became of a job that sends again, in a sentence.
#[must_use]
pub fn outcome(kind: &str, SentAgain { released, resent, left }: SentAgain) -> Option<String> {
    let sentence = match kind.parse().ok()? {
        JobKind::WebhookRecover => {
            let released = match released {
                0 => "No waiting deliveries to release".to_owned(),
                count => format!("{} released", counted(count, "waiting delivery", "waiting deliveries")),
            };
            let resent = match resent {
                0 => "no failed ones to resend".to_owned(),
                count => format!("{} resent", counted(count, "failed one", "failed ones")),
            };
            format!("{released}; {resent}.")
        }
        JobKind::WebhookRedeliver => format!("{} resent.", counted(resent, "delivery", "deliveries")),
        JobKind::WebhookReplay => format!(
            "{} on the way again: {} released, {} resent.",
            counted(released + resent, "delivery is", "deliveries are"),
            number(released),
            number(resent)
        ),
        _ => return None,
    };
    let left = match left {
        0 => String::new(),
        left => format!(
            " {} left: sent again before or already due, or the event is no longer kept.",
            counted(left, "delivery was", "deliveries were")
        ),
    };
    Some(sentence + &left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_counts_released_and_resent_deliveries() {
        let outcome = |kind, released, resent| {
            outcome(kind, SentAgain { released, resent, left: 0 }).unwrap_or_default()
        };
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

    #[test]
    fn the_figures_of_a_replay_add_up() {
        let shown = |sent| outcome("webhook.replay", sent).unwrap_or_default();
        assert_eq!(
            shown(SentAgain { released: 1_140, resent: 20, left: 0 }),
            "1,160 deliveries are on the way again: 1,140 released, 20 resent."
        );
        assert_eq!(
            shown(SentAgain { released: 0, resent: 1, left: 2 }),
            "1 delivery is on the way again: 0 released, 1 resent. 2 deliveries were left: sent again before or already due, or the event is no longer kept."
        );
    }
}
