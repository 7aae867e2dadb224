//! How many orders have not ended, by status, and what has waited longest: for the metrics.
//!
//! The index of orders by status begins with the organisation, so it is asked once for each organisation that has orders.

use crate::list::fields::expedition::ExpeditionStatus as Status;
use longshore_kernel::database::Database;
use longshore_kernel::metrics::OrdersStanding;
use longshore_kernel::problem::Problem;

/// Orders of a status that are counted.
const COUNTED: i64 = 10_000;

/// Statuses that are no end.
const OPEN: [Status; 13] = [
    Status::OnHold,
    Status::Incorrect,
    Status::AwaitingReservation,
    Status::WaitingForGoods,
    Status::StockOk,
    Status::AwaitingProcessing,
    Status::TakeOut,
    Status::Completion,
    Status::WaitingForCancel,
    Status::WaitingForTheCarrier,
    Status::CarrierPickedUp,
    Status::ReadyToTakeover,
    Status::ProbablyDelivered,
];

/// Statuses in which an order waits for the allocator, for goods, for a confirmation, for the warehouse.
const WAITING: [Status; 4] =
    [Status::AwaitingReservation, Status::WaitingForGoods, Status::StockOk, Status::AwaitingProcessing];

/// Paused orders that the search for the oldest one passes over, in an organisation.
const PASSED_OVER: i64 = 1_000;

/// Reads the figures of all organisations.
pub(super) async fn read(db: &Database) -> Result<OrdersStanding, Problem> {
    let (counts, oldest, mark) = tokio::try_join!(count(db), oldest(db), oldest_mark(db))?;
    Ok(OrdersStanding { counts, oldest_seconds: oldest, oldest_mark_seconds: mark })
}

async fn count(db: &Database) -> Result<Vec<(&'static str, i64)>, Problem> {
    let statuses = OPEN.map(Status::as_str);
    let counts = sqlx::query_scalar!(
        r#"WITH having_orders AS MATERIALIZED (
               SELECT o.id FROM organisation o
               WHERE (SELECT true FROM expedition e WHERE e.organisation_id = o.id
                                         ORDER BY e.status, e.status_since, e.id LIMIT 1)
           )
           SELECT (SELECT count(*) FROM (
                       SELECT FROM having_orders o CROSS JOIN LATERAL (
                           SELECT FROM expedition e WHERE e.organisation_id = o.id AND e.status = s.status
                           ORDER BY e.status_since, e.id LIMIT $2
                       ) AS of_one LIMIT $2) AS counted) AS "orders!"
           FROM unnest($1::text[]) WITH ORDINALITY AS s (status, place) ORDER BY s.place"#,
        &statuses as &[&str],
        COUNTED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(statuses.into_iter().zip(counts).collect())
}

async fn oldest(db: &Database) -> Result<Vec<(&'static str, f64)>, Problem> {
    let statuses = WAITING.map(Status::as_str);
    let oldest = sqlx::query_scalar!(
        r#"WITH having_orders AS MATERIALIZED (
               SELECT o.id FROM organisation o
               WHERE (SELECT true FROM expedition e WHERE e.organisation_id = o.id
                                         ORDER BY e.status, e.status_since, e.id LIMIT 1)
           )
           SELECT coalesce(extract(epoch FROM now() - (
                      SELECT min(first.since) FROM having_orders o CROSS JOIN LATERAL (
                          SELECT looked_at.status_since AS since FROM (
                              SELECT e.status_since, e.reservation_paused FROM expedition e
                              WHERE e.organisation_id = o.id AND e.status = s.status
                              ORDER BY e.status_since, e.id LIMIT $2
                          ) AS looked_at WHERE NOT looked_at.reservation_paused LIMIT 1
                      ) AS first)), 0)::float8 AS "seconds!"
           FROM unnest($1::text[]) WITH ORDINALITY AS s (status, place) ORDER BY s.place"#,
        &statuses as &[&str],
        PASSED_OVER,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(statuses.into_iter().zip(oldest.into_iter().map(|seconds| seconds.max(0.0))).collect())
}

async fn oldest_mark(db: &Database) -> Result<f64, Problem> {
    let seconds = sqlx::query_scalar!(
        r#"SELECT coalesce(extract(epoch FROM now() - min(marked_at)), 0)::float8 AS "seconds!"
           FROM product_stock WHERE marked_at IS NOT NULL"#
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(seconds.max(0.0))
}
