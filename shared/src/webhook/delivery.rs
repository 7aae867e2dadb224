//! Deliveries seen from outside: sending again, one or all that did not succeed, sending a test, and what becomes of them
//! when their webhook goes.

pub mod fields;
mod recovery;
pub mod search;
mod trial;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serializer;
use serde_json::{Value, json};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

pub use self::recovery::recover;
pub use self::trial::send_test;
use crate::account::access::Scope;
use crate::platform::answer::Answer;
use crate::platform::change::Change;
use crate::platform::context::Context;
use crate::platform::database;
use crate::platform::ids;
use crate::platform::input::{self, Reader};
use crate::platform::problem::{CONFLICT, Problem, Violation};
use crate::platform::services::Services;
use crate::record_change;

/// Deliveries that one request may send again.
pub const REDELIVERED_AT_ONCE: usize = 10_000;

/// Deliveries that are cancelled by one statement.
pub const CANCELLED_AT_ONCE: i64 = 10_000;

/// For how long a deletion cancels what its webhook leaves, and for how long it waits there for a lock.
const CLEARED_WITHIN: Duration = Duration::from_secs(10);
const LOCKED_FOR: Duration = Duration::from_secs(2);

/// A timestamp as the interface has it: UTC, in microseconds.
pub(crate) fn timestamp<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_rfc3339_opts(SecondsFormat::Micros, false))
}

/// Somebody asks, and wants to know now: a lane that waits for its next probe has it at once.
async fn probe_now(connection: &mut PgConnection, webhook: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE webhook_lane SET probe_at = now() WHERE webhook_id = $1 AND probe_at > now()",
        webhook
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Sends a delivery again (`PUT /api/webhook-delivery/redeliver/{id}`): a new delivery of the same event.
pub async fn redeliver(services: &Services, context: &Context, id: Uuid) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let found = find(change.connection(), context.scope(), &[id]).await?;
    match found.first() {
        None => return Err(Problem::not_found("delivery")),
        Some(found) => found.must_be_sendable()?,
    }
    let made = insert(&mut change, context, &found).await?;
    let new = made.first().ok_or_else(|| Problem::not_found("delivery"))?.0;
    let answer = Answer {
        status: 202,
        location: Some(format!("/api/webhook-delivery/{new}")),
        etag: None,
        body: Some(json!({"id": new, "redeliveryOf": id}).to_string()),
        job: None,
    };
    change.answer(context.claim, answer).await
}

/// Sends several again (`PUT /api/webhook-delivery/redeliver`): all or none.
pub async fn redeliver_many(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let mut ids = Reader::read(body, |reader, body| {
        input::Rule::apply(input::array(1..=REDELIVERED_AT_ONCE, input::id), reader, body)
    })?;
    // where each is named first
    let places: HashMap<Uuid, usize> = ids.iter().enumerate().rev().map(|(place, id)| (*id, place)).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut change = Change::begin(services).await?;
    let found = find(change.connection(), context.scope(), &ids).await?;
    let known: HashMap<Uuid, &Found> = found.iter().map(|f| (f.id, f)).collect();
    let mut violations = Vec::new();
    for id in &ids {
        let refused = match known.get(id) {
            None => Some(("unknown_reference", "there is no such delivery".to_owned())),
            Some(found) => found.must_be_sendable().err().map(|p| ("not_sendable", p.detail().to_owned())),
        };
        if let Some((code, message)) = refused {
            let place = places.get(id).copied().unwrap_or_default();
            violations.push((place, Violation { property_path: format!("[{place}]"), message, code }));
        }
    }
    if !violations.is_empty() {
        violations.sort_unstable_by_key(|(place, _)| *place);
        return Err(Problem::invalid(violations.into_iter().map(|(_, violation)| violation).collect()));
    }
    let made = insert(&mut change, context, &found).await?;
    let results: Vec<_> = made.iter().map(|(new, of)| json!({"id": new, "redeliveryOf": of})).collect();
    let answer = Answer {
        status: 202,
        location: None,
        etag: None,
        body: Some(json!({"results": results}).to_string()),
        job: None,
    };
    change.answer(context.claim, answer).await
}

/// A delivery that is to be sent again.
struct Found {
    id: Uuid,
    event: Uuid,
    webhook: Uuid,
    /// Its webhook and its event are still there.
    webhook_is_there: bool,
    event_is_there: bool,
}

impl Found {
    fn must_be_sendable(&self) -> Result<(), Problem> {
        if !self.webhook_is_there {
            Err(Problem::new(&CONFLICT, "its webhook was deleted"))
        } else if !self.event_is_there {
            Err(Problem::new(&CONFLICT, "its event is no longer kept"))
        } else {
            Ok(())
        }
    }
}

async fn find(connection: &mut PgConnection, scope: &Scope, ids: &[Uuid]) -> Result<Vec<Found>, Problem> {
    // the webhooks are locked, so that none is deleted before its deliveries are in
    sqlx::query!(
        "SELECT id FROM webhook WHERE id IN (
             SELECT d.webhook_id FROM unnest($1::uuid[]) AS given (id)
             CROSS JOIN LATERAL (
                 SELECT webhook_id FROM delivery WHERE id = given.id
                 UNION ALL SELECT webhook_id FROM delivery_history WHERE id = given.id
             ) d)
         ORDER BY id FOR KEY SHARE",
        ids,
    )
    .fetch_all(&mut *connection)
    .await?;
    let found = sqlx::query_as!(
        Found,
        r#"SELECT given.id AS "id!", d.event_id AS "event!", d.webhook_id AS "webhook!",
                  w.id IS NOT NULL AS "webhook_is_there!",
                  EXISTS (SELECT FROM event WHERE event.id = d.event_id) AS "event_is_there!"
           FROM unnest($3::uuid[]) AS given (id)
           CROSS JOIN LATERAL (
               SELECT event_id, webhook_id, eshop_id, NULL::uuid AS organisation_id FROM delivery
               WHERE delivery.id = given.id
               UNION ALL
               SELECT event_id, webhook_id, eshop_id, organisation_id FROM delivery_history
               WHERE delivery_history.id = given.id
           ) d
           LEFT JOIN webhook w ON w.id = d.webhook_id
           WHERE ($1::uuid[] IS NULL OR coalesce(d.organisation_id, w.organisation_id) = ANY ($1))
             AND ($2::uuid IS NULL OR d.eshop_id = $2)"#,
        scope.organisations() as Option<&[Uuid]>,
        scope.eshop() as Option<Uuid>,
        ids,
    )
    .fetch_all(connection)
    .await?;
    Ok(found)
}

/// Makes the new deliveries; answers each with the one that it repeats.
async fn insert(
    change: &mut Change<'_>,
    context: &Context,
    found: &[Found],
) -> Result<Vec<(Uuid, Uuid)>, Problem> {
    let made: Vec<_> = found.iter().map(|f| (ids::new_id(), f.id)).collect();
    let (new, of): (Vec<_>, Vec<_>) = made.iter().copied().unzip();
    let (events, webhooks): (Vec<_>, Vec<_>) = found.iter().map(|f| (f.event, f.webhook)).unzip();
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "delivery.redeliver",
        "delivery",
        "",
        "WITH made AS (
             INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, redelivery_of)
             SELECT g.id, w.id, w.eshop_id, g.event_id, now(), g.redelivery_of
             FROM unnest($9::uuid[], $10::uuid[], $11::uuid[], $12::uuid[]) AS g (id, redelivery_of, event_id, webhook_id)
             JOIN webhook w ON w.id = g.webhook_id
             RETURNING id, redelivery_of, webhook_id
         ), changed AS (
             SELECT made.redelivery_of AS entity, w.organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('redelivery', jsonb_build_array(NULL, made.id)) AS changes,
                    '{}'::jsonb AS data
             FROM made JOIN webhook w ON w.id = made.webhook_id
         )",
        &new,
        &of,
        &events,
        &webhooks,
    )
    .await?;
    change.note(recorded);
    let lanes = sqlx::query_scalar!("SELECT id FROM webhook WHERE active AND id = ANY ($1)", &webhooks)
        .fetch_all(change.connection())
        .await?;
    change.note_lanes(lanes);
    Ok(made)
}

/// Moves live deliveries to the history as cancelled: those that a query of ids gives, `$1` and `$2` being the caller's, up
/// to [`CANCELLED_AT_ONCE`] (`$3`).
macro_rules! cancel {
    ($which:literal, $connection:expr, $one:expr, $other:expr) => {
        sqlx::query!(
            "WITH gone AS (
                 DELETE FROM delivery WHERE id IN ("
                + $which
                + "
                     -- one whose outcome is just being recorded ends by that; waiting for it would be a deadlock
                     LIMIT $3 FOR UPDATE SKIP LOCKED)
                 RETURNING *
             )
             INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id,
                 state, attempt_count, attempts, redelivery_of, created_at, finished_at)
             SELECT gone.id, gone.webhook_id, gone.eshop_id, coalesce(e.organisation_id, $2), gone.event_id,
                    coalesce(e.type, 'expired'), coalesce(e.entity_id, $2), 'cancelled', gone.attempt_count, gone.attempts,
                    gone.redelivery_of, gone.created_at, now()
             FROM gone
             LEFT JOIN LATERAL (
                 SELECT organisation_id, type, entity_id FROM event WHERE event.id = gone.event_id OFFSET 0
             ) e ON true",
            $one,
            $other,
            CANCELLED_AT_ONCE,
        )
        .execute($connection)
    };
}

/// Cancels live deliveries of a webhook, up to [`CANCELLED_AT_ONCE`]: they move to the history. Answers whether
/// that was all.
async fn cancel(
    connection: &mut PgConnection,
    webhook: Uuid,
    organisation: Uuid,
) -> Result<bool, sqlx::Error> {
    let cancelled = cancel!(
        "SELECT id FROM delivery WHERE webhook_id = $1 ORDER BY webhook_id, next_attempt_at, id",
        connection,
        webhook,
        organisation
    )
    .await?
    .rows_affected();
    Ok(i64::try_from(cancelled).unwrap_or(0) < CANCELLED_AT_ONCE)
}

/// Cancels what is left of a webhook that has just been deleted, for as long as whoever deletes it may wait. What this leaves,
/// since it takes longer or somebody holds a lock, [`cancel_orphans`] finds.
pub(crate) async fn clear(db: &PgPool, webhook: Uuid, organisation: Uuid) -> Result<(), Problem> {
    let until = Instant::now() + CLEARED_WITHIN;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let mut tx = database::begin(db).await?;
        sqlx::query!(
            "SELECT set_config('lock_timeout', $1, true) AS lock, set_config('statement_timeout', $2, true) AS statement",
            milliseconds(LOCKED_FOR),
            milliseconds(left),
        )
        .fetch_one(&mut *tx)
        .await?;
        let done = cancel(&mut tx, webhook, organisation).await?;
        tx.commit().await?;
        if done {
            return Ok(());
        }
    }
}

/// A setting of Postgres; 0 would be no limit.
fn milliseconds(limit: Duration) -> String {
    limit.as_millis().max(1).to_string()
}

/// Cancels what was kept for a webhook that is not active until its event is about to be removed: it cannot be sent any
/// more. Answers how many.
pub async fn expire(db: &PgPool) -> Result<u64, Problem> {
    let cancelled = cancel!(
        "SELECT id FROM delivery
         WHERE id < uuid_v7_floor(now() - make_interval(days => (SELECT keep_days FROM history WHERE table_name = $1)))
         ORDER BY id",
        db,
        "event",
        Uuid::nil()
    )
    .await?;
    Ok(cancelled.rows_affected())
}

/// Cancels what is left of webhooks that are gone: the rest of a large backlog, or what a change that ran beside the
/// deletion wrote. Answers how many webhooks left something.
pub async fn cancel_orphans(db: &PgPool) -> Result<u64, Problem> {
    // skips from lane to lane through the index, whatever their backlog
    let orphaned = sqlx::query_scalar!(
        r#"WITH RECURSIVE seen AS (
               (SELECT webhook_id FROM delivery ORDER BY webhook_id, next_attempt_at, id LIMIT 1)
               UNION ALL
               SELECT next.webhook_id
               FROM seen CROSS JOIN LATERAL (
                   SELECT webhook_id FROM delivery WHERE webhook_id > seen.webhook_id
                   ORDER BY webhook_id, next_attempt_at, id LIMIT 1
               ) next
           )
           SELECT webhook_id AS "webhook!" FROM seen
           WHERE NOT EXISTS (SELECT FROM webhook w WHERE w.id = seen.webhook_id) LIMIT 1000"#,
    )
    .fetch_all(db)
    .await?;
    let mut left = 0;
    for webhook in orphaned {
        let mut connection = db.acquire().await?;
        while !cancel(&mut connection, webhook, Uuid::nil()).await? {}
        left += 1;
    }
    Ok(left)
}
