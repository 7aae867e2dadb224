//! Forming batches: what a webhook with `batch` gets by one call (`docs/reference/webhooks.md#batches`).
//!
//! A batch is written (`webhook_batch`) before its first attempt, so whoever takes the lane over sends the same. Once it has
//! failed, its deliveries bear its id, and become due together.

use sqlx::PgConnection;

use super::Lease;
use super::found::{Batch, Found, From, Row};
use longshore_kernel::database::Database;
use longshore_kernel::ids::{BatchId, DeliveryId};
use longshore_kernel::problem::Problem;

/// Bytes of the events of a batch, as its call has them.
const MOST_BYTES: i64 = 1_000_000;

/// The delivery that a batch is formed for.
struct First {
    id: DeliveryId,
    batch: Option<BatchId>,
    is_tried: bool,
    is_due: bool,
}

/// Forms the next batch of a lane, or finds one that was begun before. Nothing without a live lease, or before its first delivery
/// is due; but a full one is not waited for.
pub(super) async fn form(db: &Database, lease: &Lease, from: &From) -> Result<Found, Problem> {
    let mut tx = db.main.transaction(None).await?;
    // Locked, so that no other holder forms one of the same deliveries. It does not wait for the disk: what a crash of Postgres undoes
    // is sent by another batch, and its events are known by their own ids.
    let lane = sqlx::query!(
        r#"SELECT w.batch_events AS "most!" FROM webhook_lane l JOIN webhook w ON w.id = l.webhook_id
           WHERE l.webhook_id = $1 AND l.token = $2 AND w.active AND w.batch_events IS NOT NULL
             AND coalesce(greatest(l.probe_at, l.held_until) <= now(), true)
             AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
           FOR SHARE OF l"#,
        lease.webhook.get(),
        lease.token,
    )
    .fetch_optional(&mut *tx)
    .await?;
    let Some(lane) = lane else { return Ok(Found::default()) };
    if from.single {
        // a probe is one event: what was begun is formed anew
        sqlx::query!(
            "DELETE FROM webhook_batch WHERE webhook_id = $1 AND id <> ALL ($2)",
            lease.webhook.get(),
            &from.batches as &[BatchId],
        )
        .execute(&mut *tx)
        .await?;
    } else if from.begun
        && let Some(begun) = begun(&mut tx, lease, &from.batches).await?
    {
        tx.commit().await?;
        return Ok(begun);
    }
    let Some(first) = first(&mut tx, lease, from).await? else { return Ok(Found::default()) };
    let most = if from.single { 1 } else { i64::from(lane.most) };
    let (id, deliveries) = match first.batch {
        Some(batch) if first.is_due => again(&mut tx, &first, batch, from.single).await?,
        None if first.is_due && first.is_tried => (BatchId::new(), vec![first.id]),
        _ => (BatchId::new(), untried(&mut tx, lease, most).await?),
    };
    if !first.is_due && (from.single || i64::try_from(deliveries.len()).unwrap_or(i64::MAX) < most) {
        return Ok(Found::default());
    }
    let found = contents(&mut tx, lease, id, &deliveries).await?;
    if found.due.is_empty() {
        return Ok(found);
    }
    let deliveries: Vec<DeliveryId> = found.due.iter().map(|due| due.id).collect();
    sqlx::query!(
        "INSERT INTO webhook_batch (webhook_id, id, deliveries) VALUES ($1, $2, $3)",
        lease.webhook.get(),
        id.get(),
        &deliveries as &[DeliveryId],
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(found)
}

/// A batch that a holder before has begun, and of which nothing is known.
async fn begun(
    connection: &mut PgConnection,
    lease: &Lease,
    in_hand: &[BatchId],
) -> Result<Option<Found>, sqlx::Error> {
    loop {
        let begun = sqlx::query!(
            r#"SELECT id AS "id!: BatchId", deliveries AS "deliveries!: Vec<DeliveryId>" FROM webhook_batch
               WHERE webhook_id = $1 AND id <> ALL ($2) ORDER BY id LIMIT 1"#,
            lease.webhook.get(),
            in_hand as &[BatchId],
        )
        .fetch_optional(&mut *connection)
        .await?;
        let Some(begun) = begun else { return Ok(None) };
        let found = contents(connection, lease, begun.id, &begun.deliveries).await?;
        if !found.due.is_empty() {
            return Ok(Some(Found { was_begun: true, ..found }));
        }
        // all of it ended otherwise
        sqlx::query!(
            "DELETE FROM webhook_batch WHERE webhook_id = $1 AND id = $2",
            lease.webhook.get(),
            begun.id.get()
        )
        .execute(&mut *connection)
        .await?;
    }
}

/// The delivery that is next: of an ordered lane, and of a probe by what was tried before, the oldest that was tried.
async fn first(
    connection: &mut PgConnection,
    lease: &Lease,
    from: &From,
) -> Result<Option<First>, sqlx::Error> {
    if lease.ordered || from.again {
        let tried = sqlx::query_as!(
            First,
            r#"SELECT id, batch_id AS "batch: BatchId", true AS "is_tried!", next_attempt_at <= now() AS "is_due!" FROM (
                   SELECT id, batch_id, next_attempt_at, created_at FROM delivery
                   WHERE webhook_id = $1 AND attempt_count > 0
                     AND id NOT IN (SELECT unnest(deliveries) FROM webhook_batch WHERE webhook_id = $1)
                   ORDER BY created_at, id LIMIT 100
               ) tried
               WHERE $2 OR next_attempt_at <= now()
               ORDER BY created_at, id LIMIT 1"#,
            lease.webhook.get(),
            lease.ordered,
        )
        .fetch_optional(&mut *connection)
        .await?;
        if let Some(tried) = tried {
            return Ok(Some(tried).filter(|tried| tried.is_due));
        }
    }
    sqlx::query_as!(
        First,
        r#"SELECT id, batch_id AS "batch: BatchId", attempt_count > 0 AS "is_tried!", next_attempt_at <= now() AS "is_due!"
           FROM delivery
           WHERE webhook_id = $1 AND next_attempt_at >= $2
             AND id NOT IN (SELECT unnest(deliveries) FROM webhook_batch WHERE webhook_id = $1)
           ORDER BY next_attempt_at, id LIMIT 1"#,
        lease.webhook.get(),
        lease.nothing_before,
    )
    .fetch_optional(connection)
    .await
}

/// What a batch that failed has left, or a single delivery of it: the rest then is another batch, since each has the same events
/// whenever it is tried.
async fn again(
    connection: &mut PgConnection,
    first: &First,
    batch: BatchId,
    single: bool,
) -> Result<(BatchId, Vec<DeliveryId>), sqlx::Error> {
    let deliveries = sqlx::query_scalar!(
        r#"SELECT id AS "id: DeliveryId" FROM delivery WHERE batch_id = $1 ORDER BY created_at, id"#,
        batch.get()
    )
    .fetch_all(&mut *connection)
    .await?;
    if !single || deliveries.len() == 1 {
        return Ok((batch, deliveries));
    }
    let (alone, rest) = (BatchId::new(), BatchId::new());
    sqlx::query!(
        "UPDATE delivery SET batch_id = CASE id WHEN $3 THEN $1::uuid ELSE $2 END WHERE id = ANY ($4)",
        alone.get(),
        rest.get(),
        first.id.get(),
        &deliveries as &[DeliveryId]
    )
    .execute(connection)
    .await?;
    Ok((alone, vec![first.id]))
}

/// What was never tried, also what still waits for its batch.
async fn untried(
    connection: &mut PgConnection,
    lease: &Lease,
    most: i64,
) -> Result<Vec<DeliveryId>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT id AS "id: DeliveryId" FROM delivery
           WHERE webhook_id = $1 AND next_attempt_at >= $2 AND next_attempt_at <= now() + interval '1 minute' AND attempt_count = 0
             AND batch_id IS NULL AND id NOT IN (SELECT unnest(deliveries) FROM webhook_batch WHERE webhook_id = $1)
           ORDER BY next_attempt_at, id LIMIT $3"#,
        lease.webhook.get(),
        lease.nothing_before,
        most,
    )
    .fetch_all(connection)
    .await
}

/// Those of these deliveries that are still to be sent, in order and with their events, as many as a call may have.
async fn contents(
    connection: &mut PgConnection,
    lease: &Lease,
    id: BatchId,
    deliveries: &[DeliveryId],
) -> Result<Found, sqlx::Error> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT id AS "id!", event_id AS "event_id!", attempt_count AS "attempt_count!", next_attempt_at AS "next_attempt_at!",
                  last_status, type AS "event_type?", entity_id AS "entity_id?", at AS "at?", data AS "data?", eshops AS "eshops?",
                  request_id AS "request_id?", traceparent AS "traceparent?"
           FROM (
               SELECT d.id, d.event_id, d.attempt_count, d.next_attempt_at, d.created_at,
                      (d.attempts -> -1 ->> 'status')::int AS last_status, e.*,
                      sum(least(octet_length(e.data), 20000) + 300
                          + CASE WHEN d.eshop_id IS NULL THEN 39 * least(cardinality(e.eshops), 100) ELSE 0 END) OVER (ORDER BY d.created_at, d.id) AS bytes
               FROM unnest($1::uuid[]) AS given (id)
               CROSS JOIN LATERAL (SELECT * FROM delivery WHERE delivery.id = given.id OFFSET 0) d
               LEFT JOIN LATERAL (
                   SELECT type, entity_id, at, data::text AS data, eshops, request_id, traceparent
                   FROM event WHERE event.id = d.event_id OFFSET 0
               ) e ON true
           ) AS found
           WHERE bytes <= $2 OR data IS NULL
           ORDER BY created_at, id"#,
        deliveries as &[DeliveryId],
        MOST_BYTES,
    )
    .fetch_all(connection)
    .await?;
    let last_status =
        rows.first().and_then(|row| row.last_status).and_then(|status| u16::try_from(status).ok());
    let found = Found::of(lease.webhook, rows, 0);
    Ok(Found {
        is_full: !found.due.is_empty(),
        cursor: None,
        batch: Some(Batch { id, last_status }),
        ..found
    })
}
