//! Operations on deliveries: searching them, sending them again (one, several, or all that match), testing a webhook, and cancelling
//! the backlog of a deleted one.

pub mod outcome;
pub mod recovery;
pub mod redelivery;
pub mod replay;
mod resending;
mod restored;
pub mod search;
mod trial;

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

pub use self::recovery::recover;
pub use self::redelivery::{accept, redeliver, redeliver_many};
pub(in crate::webhook) use self::resending::release_all;
pub use self::restored::tell_of_restore;
pub use self::trial::{TESTS_A_MINUTE, due_tests, send_test, test_body};
pub use crate::list::fields::delivery::DeliveryState;
use longshore_kernel::change::Change;
use longshore_kernel::database::Pool;
use longshore_kernel::ids::{OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;

/// Deliveries that are cancelled by one statement.
pub const CANCELLED_AT_ONCE: i64 = 10_000;

/// For how long a deletion cancels what its webhook leaves, and for how long it waits there for a lock.
const CLEARED_WITHIN: Duration = Duration::from_secs(10);
const LOCKED_FOR: Duration = Duration::from_secs(2);

/// Deliveries of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deliveries {
    /// The webhook.
    pub webhook: WebhookId,
    /// Made at this moment or before: what is made later is not meant.
    pub made_by: DateTime<Utc>,
    /// Ended at this moment or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_since: Option<DateTime<Utc>>,
    /// Ended before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_before: Option<DateTime<Utc>>,
    /// In this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DeliveryState>,
    /// Of this type of event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// About this entity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<Uuid>,
}

impl Deliveries {
    /// All of a webhook that were made by a moment.
    #[must_use]
    pub fn made_by(webhook: WebhookId, moment: DateTime<Utc>) -> Self {
        Self {
            webhook,
            made_by: moment,
            ended_since: None,
            ended_before: None,
            state: None,
            event: None,
            entity: None,
        }
    }

    /// All of a webhook that were made by now: what comes later, also by the job itself, is none of its items.
    async fn made_by_now(change: &mut Change<'_>, webhook: WebhookId) -> Result<Self, sqlx::Error> {
        Ok(Self::made_by(webhook, begun_at(change).await?))
    }
}

/// When a change began, by the clock of Postgres.
async fn begun_at(change: &mut Change<'_>) -> Result<DateTime<Utc>, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT now() AS "now!""#).fetch_one(change.connection()).await
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
                 state, attempt_count, attempts, redelivery_of, batch_id, created_at, finished_at)
             SELECT gone.id, gone.webhook_id, gone.eshop_id, coalesce(e.organisation_id, $2), gone.event_id,
                    coalesce(e.type, 'expired'), coalesce(e.entity_id, $2), 'cancelled', gone.attempt_count, gone.attempts,
                    gone.redelivery_of, gone.batch_id, gone.created_at, now()
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

/// Cancels live deliveries of a webhook, up to [`CANCELLED_AT_ONCE`]: they move to the history. Returns whether that was all.
async fn cancel(
    connection: &mut PgConnection,
    webhook: WebhookId,
    organisation: OrganisationId,
) -> Result<bool, sqlx::Error> {
    let cancelled = cancel!(
        "SELECT id FROM delivery WHERE webhook_id = $1 ORDER BY webhook_id, next_attempt_at, id",
        connection,
        webhook.get(),
        organisation.get()
    )
    .await?
    .rows_affected();
    Ok(i64::try_from(cancelled).unwrap_or(0) < CANCELLED_AT_ONCE)
}

/// Cancels the backlog of a webhook that has just been deleted, as far as the time of the request permits.
/// [`cancel_orphans`] finds the rest, if it takes longer or rows are locked.
pub(crate) async fn clear(
    db: &Pool,
    webhook: WebhookId,
    organisation: OrganisationId,
) -> Result<(), Problem> {
    let until = Instant::now() + CLEARED_WITHIN;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let mut tx = db.transaction(None).await?;
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

/// Cancels deliveries of inactive webhooks whose event is about to be removed, because they could not be sent any more.
/// Returns how many.
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
/// deletion wrote. Returns how many webhooks have a backlog left.
pub async fn cancel_orphans(db: &PgPool) -> Result<u64, Problem> {
    // skips from lane to lane through the index, independent of their backlogs
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
        while !cancel(&mut connection, webhook.into(), OrganisationId::nil()).await? {}
        left += 1;
    }
    Ok(left)
}
