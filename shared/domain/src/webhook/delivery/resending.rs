//! Sending deliveries of one webhook again, step by step: the mechanism of a [replay](super::replay) and of a
//! [recovery](super::recovery).
//!
//! What waits to be tried again is *released*: it is due now, also what is due and held until the next probe of its destination, or
//! for as long as that asked. What has ended in the period gets a new delivery of the same event: it is *resent*, once however often
//! it was tried, and not where a redelivery succeeded, or is on its way, or the event is no longer kept. A step does both in one
//! transaction, so one that runs twice sends nothing twice.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Deliveries;
use crate::job::chunk::Claim;
use crate::job::outcome::Fate;
use crate::job::walking::Step;
use crate::webhook::lane::end_wait;
use crate::webhook::subscription::stored;
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{DeliveryId, WebhookId};
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Deliveries of each sort that one step looks at. The queries name it as a number: of a parameter the planner expects a tenth of
/// all that there is.
const STEP: usize = 2_000;

/// Deliveries of each sort that are counted.
pub(super) const COUNTED: i64 = 100_000;

/// For how long an activation releases what waits at its webhook.
const RELEASED_WITHIN: Duration = Duration::from_secs(10);

/// Sorts of deliveries, in the order in which a walk looks at them: what waits comes first, so that what ends in between is not
/// missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Sort {
    /// They wait to be tried again.
    Waiting,
    /// They have ended without success.
    Failed,
    /// They were delivered more than an hour after they were made.
    Late,
    /// They were delivered within an hour.
    Prompt,
}

/// A cursor behind the last delivery of a step.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Cursor {
    pub(super) sort: Sort,
    pub(super) at: DateTime<Utc>,
    pub(super) id: DeliveryId,
}

/// How the steps of a walk are audited.
pub(super) struct Audited {
    /// The action.
    pub(super) action: &'static str,
    /// The names that the bounds of the period have there.
    pub(super) since: &'static str,
    pub(super) until: Option<&'static str>,
}

/// Which deliveries a walk sends again.
pub(super) struct Walk<'w> {
    /// Of one webhook, that ended in a period.
    pub(super) about: &'w Deliveries,
    /// Those that were delivered as well.
    pub(super) delivered: bool,
    pub(super) audited: Audited,
}

impl Walk<'_> {
    /// Where the deliveries of a sort begin.
    fn first(&self, sort: Sort) -> Cursor {
        let at = match self.about.ended_since {
            Some(since) if sort != Sort::Waiting => since,
            _ => DateTime::UNIX_EPOCH,
        };
        Cursor { sort, at, id: DeliveryId::nil() }
    }

    /// The cursor behind a batch: the rest of its sort, or the next sort.
    fn behind(&self, cursor: Cursor, batch: &Batch) -> Option<Cursor> {
        if let Some((at, id)) = batch.full() {
            // those by their ids keep the beginning of the period
            let at = if cursor.sort == Sort::Prompt { cursor.at } else { at };
            return Some(Cursor { at, id, ..cursor });
        }
        let next = match cursor.sort {
            Sort::Waiting => Sort::Failed,
            Sort::Failed if self.delivered => Sort::Late,
            Sort::Late => Sort::Prompt,
            Sort::Failed | Sort::Prompt => return None,
        };
        Some(self.first(next))
    }

    /// Takes one step from a cursor, or from the beginning: a batch of each sort, until one of them leaves some. Returns what it came
    /// to, and where the next one begins; nothing where the webhook was deleted.
    pub(super) async fn step(
        &self,
        change: &mut Change<'_>,
        claim: &Claim,
        begin: Option<Cursor>,
    ) -> Result<Option<(Step, Option<Cursor>)>, Fate> {
        let webhook = self.about.webhook;
        // a concurrent replay, recovery or redelivery waits here, so that no delivery is created twice
        let found = sqlx::query!("SELECT active FROM webhook WHERE id = $1 FOR UPDATE", webhook.get())
            .fetch_optional(change.connection())
            .await?;
        let Some(found) = found else { return Ok(None) };
        let mut step = Step::default();
        if begin.is_none() && end_wait(change.connection(), webhook).await? {
            let held = in_i32(held(change, self.about).await?);
            step = Step { found: held, released: held, ..step };
        }
        let mut cursor = begin.unwrap_or_else(|| self.first(Sort::Waiting));
        let next = loop {
            let batch = self.send(change, cursor).await?;
            step.found += in_i32(batch.found);
            match cursor.sort {
                Sort::Waiting => step.released += in_i32(batch.changed),
                Sort::Failed | Sort::Late | Sort::Prompt => step.resent += in_i32(batch.changed),
            }
            let next = self.behind(cursor, &batch);
            match next {
                Some(next) if next.sort != cursor.sort => cursor = next,
                _ => break next,
            }
        };
        if step.released + step.resent > 0 {
            self.record(change, &claim.origin, &step).await?;
        }
        if found.active {
            change.note_lanes([webhook]);
        }
        Ok(Some((step, next)))
    }

    /// Sends a batch again.
    async fn send(
        &self,
        change: &mut Change<'_>,
        Cursor { sort, at, id }: Cursor,
    ) -> Result<Batch, sqlx::Error> {
        match sort {
            Sort::Waiting => release(change, self.about, at, id).await,
            Sort::Failed => resend_failed(change, self.about, at, id).await,
            Sort::Late => resend_late(change, self.about, at, id).await,
            Sort::Prompt => resend_prompt(change, self.about, at, id).await,
        }
    }

    async fn record(&self, change: &mut Change<'_>, origin: &Origin, step: &Step) -> Result<(), sqlx::Error> {
        let recorded = record_change!(
            change.connection(),
            origin,
            self.audited.action,
            stored::ENTITY,
            None,
            "WITH changed AS (
                 SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                        jsonb_build_object($10::text, jsonb_build_array(NULL, $11::timestamptz),
                            'released', jsonb_build_array(NULL, $14::int), 'resent', jsonb_build_array(NULL, $15::int))
                        || CASE WHEN $12::text IS NULL THEN '{}'
                                ELSE jsonb_build_object($12::text, jsonb_build_array(NULL, $13::timestamptz)) END AS changes,
                        '{}'::jsonb AS data
                 FROM webhook WHERE id = $9
             )",
            self.about.webhook.get(),
            self.audited.since,
            self.about.ended_since,
            self.audited.until,
            self.about.ended_before,
            step.released,
            step.resent,
        )
        .await?;
        change.note(recorded);
        Ok(())
    }
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

pub(super) fn in_i32(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// How much was due, and waited for its destination, up to [`COUNTED`].
async fn held(change: &mut Change<'_>, about: &Deliveries) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               SELECT FROM delivery d
               WHERE d.webhook_id = $1 AND d.next_attempt_at <= now() AND d.created_at <= $2
                 AND d.created_at < coalesce($3::timestamptz, 'infinity')
                 AND ($4::text IS NULL OR (SELECT e.type FROM event e WHERE e.id = d.event_id) = $4)
               ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT $5
           ) AS held"#,
        about.webhook.get(),
        about.made_by,
        about.ended_before,
        about.event.as_deref(),
        COUNTED,
    )
    .fetch_one(change.connection())
    .await
}

/// Lets be due now what waits to be tried again at a webhook that was just activated, as far as the time of the request permits.
/// What is left is sent at its own time.
pub(in crate::webhook) async fn release_all(services: &Services, webhook: WebhookId) -> Result<(), Problem> {
    let until = Instant::now() + RELEASED_WITHIN;
    let mut behind = (DateTime::UNIX_EPOCH, DeliveryId::nil());
    loop {
        let mut change = Change::begin(services).await?;
        let about = Deliveries::made_by_now(&mut change, webhook).await?;
        let batch = release(&mut change, &about, behind.0, behind.1).await?;
        change.note_lanes([webhook]);
        change.commit().await?;
        match batch.full() {
            Some(last) if Instant::now() < until => behind = last,
            _ => return Ok(()),
        }
    }
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

/// Sends again what has ended: `$batch` are the deliveries that a step looks at, `$later` says which redeliveries of its event
/// replace one.
// What became of each event is looked up one by one by its key: a join may be planned as all of a batch with all that is on its
// way, and the next step as even more.
macro_rules! resend {
    // what was delivered: not if it was sent again since the job was accepted, or if the job finds that as well
    ($batch:literal, $change:expr, $about:expr, $at:expr, $id:expr) => {
        resend!(
            $batch,
            "d.id > b.id AND (d.created_at > $4 OR (d.state = 'delivered' AND d.finished_at >= b.finished_at
             AND ($6::timestamptz IS NULL OR d.finished_at < $6)))",
            $change,
            $about,
            $at,
            $id
        )
    };
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
async fn resend_failed(
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
        // one that succeeded, or that failed in its turn and is found instead of this one
        "d.state = 'delivered' OR (d.id > b.id AND d.created_at <= $4)",
        change,
        about,
        at,
        id
    )
}

/// Sends again what was delivered more than an hour after it was made: an index has these, by their end.
async fn resend_late(
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
        change,
        about,
        at,
        id
    )
}

/// Sends again what was delivered within an hour, in the order in which it was made.
async fn resend_prompt(
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
        change,
        about,
        since,
        id
    )
}
