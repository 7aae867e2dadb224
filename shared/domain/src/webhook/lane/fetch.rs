//! Fetching what is due.

use super::found::{AT_ONCE, Found, From, Row};
use super::{Lease, batch};
use longshore_kernel::database::Database;
use longshore_kernel::ids::DeliveryId;
use longshore_kernel::problem::Problem;

/// Reads deliveries with their events: `with` (common table expressions, or nothing), then the deliveries as `d`, then what
/// limits and orders them.
// The events are looked up one by one by their key: a join may be planned as a scan while tables are fresh.
macro_rules! due_query {
    ($with:literal, $deliveries:literal, $rest:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            $with
            + r#"
            SELECT d.id AS "id!", d.event_id AS "event_id!", d.attempt_count AS "attempt_count!", d.next_attempt_at AS "next_attempt_at!", NULL::int AS last_status, e.type AS "event_type?",
                   e.entity_id AS "entity_id?", e.at AS "at?", e.data AS "data?", e.eshops AS "eshops?", e.request_id AS "request_id?",
                   e.traceparent AS "traceparent?"
            FROM "# + $deliveries + r#"
            LEFT JOIN LATERAL (
                SELECT type, entity_id, at, data::text AS data, eshops, request_id, traceparent
                FROM event WHERE event.id = d.event_id OFFSET 0
            ) e ON true
            "# + $rest
            $(, $parameter)*
        )
    };
}

/// Up to [`AT_ONCE`] deliveries that are due, oldest first, with their events. Nothing without a live lease, or once the
/// breaker has opened.
///
/// For a probe `again`, what is found is one delivery that was tried before, if one is due.
///
/// An ordered lane has no cursor: its order is that of the events. What was tried comes first, and while the oldest of
/// that is not due, nothing is.
///
/// Of a lane that sends batches, it is the next batch.
pub async fn fetch(db: &Database, lease: &Lease, from: From) -> Result<Found, Problem> {
    if lease.batches {
        return batch::form(db, lease, &from).await;
    }
    let From { after, in_hand, again, .. } = from;
    if lease.ordered {
        let found = Found::of(lease.webhook, fetch_ordered(db, lease, &in_hand).await?, AT_ONCE);
        return Ok(Found { cursor: None, ..found });
    }
    if again {
        let found = Found::of(lease.webhook, fetch_tried(db, lease, &in_hand).await?, 1);
        if found.is_full {
            return Ok(Found { cursor: None, ..found });
        }
    }
    let rows = due_query!(
        "",
        "(
             SELECT id, event_id, attempt_count, next_attempt_at FROM delivery
             WHERE webhook_id = $1 AND next_attempt_at <= now()
               AND (next_attempt_at, id) > ($3, $4) AND id <> ALL ($5)
               AND (SELECT true FROM webhook_lane l JOIN webhook w ON w.id = l.webhook_id
                    WHERE l.webhook_id = $1 AND l.token = $2 AND w.active
                      AND coalesce(greatest(l.probe_at, l.held_until) <= now(), true))
             ORDER BY next_attempt_at, id LIMIT 200
         ) d",
        "ORDER BY d.next_attempt_at, d.id",
        lease.webhook.get(),
        lease.token,
        after.map_or(lease.nothing_before, |c| c.next_attempt_at),
        after.map_or(DeliveryId::nil(), |c| c.id).get(),
        &in_hand as &[DeliveryId],
    )
    .fetch_all(&db.main)
    .await?;
    Ok(Found::of(lease.webhook, rows, AT_ONCE))
}

/// One of the oldest deliveries that were tried and are due again.
async fn fetch_tried(db: &Database, lease: &Lease, in_hand: &[DeliveryId]) -> Result<Vec<Row>, Problem> {
    let rows = due_query!(
        "",
        "(
             SELECT id, event_id, attempt_count, next_attempt_at FROM (
                 SELECT id, event_id, attempt_count, next_attempt_at, created_at FROM delivery
                 WHERE webhook_id = $1 AND attempt_count > 0 AND id <> ALL ($3)
                   AND (SELECT true FROM webhook_lane l JOIN webhook w ON w.id = l.webhook_id
                        WHERE l.webhook_id = $1 AND l.token = $2 AND w.active
                          AND coalesce(greatest(l.probe_at, l.held_until) <= now(), true))
                 ORDER BY created_at, id LIMIT 100
             ) tried
             WHERE next_attempt_at <= now()
             ORDER BY created_at, id LIMIT 1
         ) d",
        "",
        lease.webhook.get(),
        lease.token,
        in_hand as &[DeliveryId],
    )
    .fetch_all(&db.main)
    .await?;
    Ok(rows)
}

async fn fetch_ordered(db: &Database, lease: &Lease, in_hand: &[DeliveryId]) -> Result<Vec<Row>, Problem> {
    let rows = due_query!(
        "WITH tried AS MATERIALIZED (
             SELECT id, event_id, attempt_count, next_attempt_at, created_at FROM delivery
             WHERE webhook_id = $1 AND attempt_count > 0 AND id <> ALL ($3)
             ORDER BY created_at, id LIMIT 200
         ), ready AS (
             SELECT tried.*, bool_and(next_attempt_at <= now()) OVER (ORDER BY created_at, id) AS ready FROM tried
         ), fresh AS (
             SELECT id, event_id, attempt_count, next_attempt_at, created_at FROM delivery
             WHERE webhook_id = $1 AND next_attempt_at <= now() AND next_attempt_at >= $4 AND attempt_count = 0 AND id <> ALL ($3)
               AND NOT EXISTS (SELECT FROM tried)
             ORDER BY next_attempt_at, id LIMIT 200
         ), d AS (
             SELECT id, event_id, attempt_count, next_attempt_at, created_at FROM ready WHERE ready
             UNION ALL SELECT * FROM fresh
         )",
        "d",
        "WHERE (SELECT true FROM webhook_lane l JOIN webhook w ON w.id = l.webhook_id
                WHERE l.webhook_id = $1 AND l.token = $2 AND w.active
                  AND coalesce(greatest(l.probe_at, l.held_until) <= now(), true))
         ORDER BY d.created_at, d.id",
        lease.webhook.get(),
        lease.token,
        in_hand as &[DeliveryId],
        lease.nothing_before,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(rows)
}
