//! The stocks that orders are booked in: made before they are locked, and locked by id (`docs/reference/orders.md#booking`).
//!
//! Locks are taken in one order everywhere: orders by id, stocks by id, then the products whose stock is all zeros, by id.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;
use uuid::Uuid;

use super::allocator::{Ledger, Stock};
use super::order::{Order, Place};
use longshore_kernel::ids::{ExpeditionId, OrganisationId, ProductId, StockId};
use longshore_kernel::pool::Pool;

/// A product in a place, which is to have a stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wanted {
    pub(super) organisation: OrganisationId,
    pub(super) product: ProductId,
    pub(super) place: Place,
}

/// Makes the stocks of products that have none in a place yet, in a transaction of its own.
pub(super) async fn make(pool: &Pool, wanted: &[Wanted]) -> Result<(), sqlx::Error> {
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    let column = |of: fn(&Wanted) -> Uuid| -> Vec<Uuid> { wanted.iter().map(of).collect() };
    sqlx::query!(
        "INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
         SELECT uuid_v7(), w.organisation, w.product, w.warehouse, w.wms, 0
         FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[]) AS w (organisation, product, warehouse, wms)
         JOIN product p ON p.id = ANY (ARRAY[w.product]) AND p.type = 'physical'
         ORDER BY w.product, w.warehouse, w.wms
         ON CONFLICT DO NOTHING",
        &column(|w| w.organisation.get()),
        &column(|w| w.product.get()),
        &column(|w| w.place.warehouse.get()),
        &column(|w| w.place.wms.get()),
    )
    .execute(pool)
    .await
    .map(|_| ())
}

/// Makes the stocks that the items of orders lack.
pub(super) async fn make_for(pool: &Pool, orders: &[ExpeditionId]) -> Result<(), sqlx::Error> {
    let wanted = sqlx::query!(
        "SELECT DISTINCT e.organisation_id, i.product_id, e.warehouse_id, e.wms_id
         FROM expedition e JOIN expedition_item i ON i.expedition_id = e.id
         WHERE e.id = ANY($1)
           AND NOT EXISTS (SELECT FROM product_stock s WHERE s.product_id = i.product_id
                           AND s.warehouse_id = e.warehouse_id AND s.wms_id = e.wms_id)",
        orders as &[ExpeditionId],
    )
    .fetch_all(pool)
    .await?;
    if wanted.is_empty() {
        return Ok(());
    }
    let wanted = wanted.into_iter().map(|row| Wanted {
        organisation: row.organisation_id.into(),
        product: row.product_id.into(),
        place: Place { warehouse: row.warehouse_id.into(), wms: row.wms_id.into() },
    });
    make(pool, &wanted.collect::<Vec<_>>()).await
}

/// Stocks that are locked.
pub(super) struct Locked {
    pub(super) ledger: Ledger,
    /// Products whose stock is all zeros: nothing keeps them physical.
    zero: Vec<Uuid>,
}

/// Locks the stocks of orders, by id.
pub(super) async fn lock(connection: &mut PgConnection, orders: &[Order]) -> Result<Locked, sqlx::Error> {
    let mut ids: Vec<StockId> = orders.iter().flat_map(|o| &o.items).filter_map(|item| item.stock).collect();
    ids.sort_unstable();
    ids.dedup();
    lock_ids(connection, &ids).await
}

/// Locks stocks, by id.
pub(super) async fn lock_ids(connection: &mut PgConnection, ids: &[StockId]) -> Result<Locked, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT id, product_id, quantity, held, missing, incoming, marked_at IS NOT NULL AS "is_marked!"
           FROM product_stock WHERE id = ANY($1) ORDER BY id FOR UPDATE"#,
        ids as &[StockId],
    )
    .fetch_all(connection)
    .await?;
    let zero = rows
        .iter()
        .filter(|row| (row.quantity, row.held, row.missing, row.incoming) == (0, 0, 0, 0))
        .map(|row| row.product_id)
        .collect();
    let stocks = rows.into_iter().map(|row| {
        let quantity = i64::from(row.quantity);
        let (held, missing, is_marked) = (row.held, row.missing, row.is_marked);
        (StockId::from(row.id), Stock { quantity, held, missing, is_marked })
    });
    Ok(Locked { ledger: stocks.collect(), zero })
}

/// Keeps the products of orders that are to be sent physical: one that is not any more has no stock to be booked in.
pub(super) async fn keep_physical(
    connection: &mut PgConnection,
    locked: &Locked,
    orders: &mut [Order],
) -> Result<(), sqlx::Error> {
    if locked.zero.is_empty() {
        return Ok(());
    }
    let physical = sqlx::query_scalar!(
        "SELECT id FROM product WHERE id = ANY($1) AND type = 'physical' ORDER BY id FOR KEY SHARE",
        &locked.zero,
    )
    .fetch_all(connection)
    .await?;
    let physical: HashSet<Uuid> = physical.into_iter().collect();
    let zero: HashSet<Uuid> = locked.zero.iter().copied().collect();
    for item in orders.iter_mut().flat_map(|order| &mut order.items) {
        let product = item.product.get();
        item.is_physical &= !zero.contains(&product) || physical.contains(&product);
    }
    Ok(())
}

/// The stocks that products have in their places.
pub(super) async fn find(
    pool: &Pool,
    wanted: &[Wanted],
) -> Result<HashMap<(ProductId, Place), StockId>, sqlx::Error> {
    let column = |of: fn(&Wanted) -> Uuid| -> Vec<Uuid> { wanted.iter().map(of).collect() };
    let rows = sqlx::query!(
        "SELECT s.id, s.product_id, s.warehouse_id, s.wms_id
         FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS w (product, warehouse, wms)
         JOIN product_stock s ON s.product_id = w.product AND s.warehouse_id = w.warehouse AND s.wms_id = w.wms",
        &column(|w| w.product.get()),
        &column(|w| w.place.warehouse.get()),
        &column(|w| w.place.wms.get()),
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let place = Place { warehouse: row.warehouse_id.into(), wms: row.wms_id.into() };
            ((ProductId::from(row.product_id), place), StockId::from(row.id))
        })
        .collect())
}
