//! The stocks that orders are booked in: made before they are locked, and locked by id (`docs/reference/orders.md#booking`).
//!
//! Locks are taken in one order everywhere: orders by id, stocks by id, then the products whose stock is all zeros, by id. A
//! transaction that works in several steps takes those of all steps before the first.
//!
//! Stocks are made on a connection of their own, whose wait for a product Postgres does not see as one of the transaction that
//! needs them. So that transaction must hold no locks yet, or the wait must be short: else two would wait for each other until
//! their time is up. A transaction that is whole ([`Change::is_whole`]) makes them itself: it is tried only, or has locked what it was
//! compared with, and Postgres sees its waits.

use std::collections::{HashMap, HashSet};

use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::allocator::{Ledger, Stock};
use super::order::{Order, Place};
use longshore_kernel::change::Change;
use longshore_kernel::ids::{ExpeditionId, OrganisationId, ProductId, StockId};
use longshore_kernel::pool::{BEGIN_BRIEF, Pool};
use longshore_kernel::sqlstate::Overtaken;

/// A product in a place, which is to have a stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wanted {
    pub(super) organisation: OrganisationId,
    pub(super) product: ProductId,
    pub(super) place: Place,
}

/// Who makes stocks.
#[derive(Debug)]
pub enum By<'c> {
    /// The transaction that needs them, which is whole.
    Itself(&'c mut PgConnection),
    /// A transaction beside one that holds no locks.
    Another(&'c Pool),
    /// A transaction beside one that holds locks. Where a product is locked for longer than a moment, that is contention (55P03): the
    /// caller gives its locks back, and runs again.
    AnotherUnderLocks(&'c Pool),
}

impl<'c> By<'c> {
    /// The transaction itself if it is whole, else one beside it, which holds no locks.
    pub(super) fn of(change: &'c mut Change<'_>) -> Self {
        if change.is_whole() {
            Self::Itself(change.connection())
        } else {
            Self::Another(&change.services().db.main)
        }
    }

    /// Makes the stocks of products that have none in a place yet.
    async fn insert(&mut self, wanted: &[Wanted]) -> Result<(), sqlx::Error> {
        match self {
            Self::Itself(connection) => insert(connection, wanted).await,
            Self::Another(pool) => insert(&mut *pool.acquire().await?, wanted).await,
            Self::AnotherUnderLocks(pool) => {
                let mut tx = pool.transaction(Some(BEGIN_BRIEF)).await?;
                insert(&mut tx, wanted).await?;
                tx.commit().await
            }
        }
    }

    /// The same; returns the stocks that the products have then.
    pub(super) async fn make(
        mut self,
        wanted: &[Wanted],
    ) -> Result<HashMap<(ProductId, Place), StockId>, sqlx::Error> {
        self.insert(wanted).await?;
        match self {
            Self::Itself(connection) => find(connection, wanted).await,
            Self::Another(pool) | Self::AnotherUnderLocks(pool) => find(pool, wanted).await,
        }
    }
}

/// Inserts stocks, whose products are locked in the order of their ids.
async fn insert(connection: &mut PgConnection, wanted: &[Wanted]) -> Result<(), sqlx::Error> {
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
    .execute(connection)
    .await
    .map(|_| ())
}

/// Makes the stocks that the items of orders lack.
pub(super) async fn make_for(mut by: By<'_>, orders: &[ExpeditionId]) -> Result<(), sqlx::Error> {
    let wanted = match &mut by {
        By::Itself(connection) => lacking(&mut **connection, orders).await?,
        By::Another(pool) | By::AnotherUnderLocks(pool) => lacking(*pool, orders).await?,
    };
    if wanted.is_empty() { Ok(()) } else { by.insert(&wanted).await }
}

/// The stocks that the items of orders lack.
async fn lacking(executor: impl PgExecutor<'_>, orders: &[ExpeditionId]) -> Result<Vec<Wanted>, sqlx::Error> {
    let wanted = sqlx::query!(
        "SELECT DISTINCT e.organisation_id, i.product_id, e.warehouse_id, e.wms_id
         FROM expedition e JOIN expedition_item i ON i.expedition_id = e.id
         WHERE e.id = ANY($1)
           AND NOT EXISTS (SELECT FROM product_stock s WHERE s.product_id = i.product_id
                           AND s.warehouse_id = e.warehouse_id AND s.wms_id = e.wms_id)",
        orders as &[ExpeditionId],
    )
    .fetch_all(executor)
    .await?;
    let wanted = wanted.into_iter().map(|row| Wanted {
        organisation: row.organisation_id.into(),
        product: row.product_id.into(),
        place: Place { warehouse: row.warehouse_id.into(), wms: row.wms_id.into() },
    });
    Ok(wanted.collect())
}

/// Stocks that are locked.
pub(super) struct Locked {
    pub(super) ledger: Ledger,
    /// Products whose stock is all zeros: nothing keeps them physical.
    zero: Vec<Uuid>,
}

/// Locks the stocks of orders, by id.
pub(super) async fn lock(connection: &mut PgConnection, orders: &[Order]) -> Result<Locked, sqlx::Error> {
    lock_ids(connection, &of(orders)).await
}

/// Locks the stocks of orders where those that were `foreseen` are locked, or may be waited for: the others are out of order, and
/// are not waited for. One that another transaction has is contention.
pub(super) async fn lock_foreseen(
    connection: &mut PgConnection,
    orders: &[Order],
    foreseen: &HashSet<StockId>,
) -> Result<Locked, sqlx::Error> {
    let mut others = of(orders);
    others.retain(|stock| !foreseen.contains(stock));
    if !others.is_empty() && lock_free(connection, &others).await?.len() < others.len() {
        return Err(Overtaken("a stock that nobody foresaw is locked").into());
    }
    lock(connection, orders).await
}

/// Locks those of the stocks that are free; returns them.
pub(super) async fn lock_free(
    connection: &mut PgConnection,
    stocks: &[StockId],
) -> Result<Vec<StockId>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT id AS "id: StockId" FROM product_stock WHERE id = ANY($1) ORDER BY id FOR UPDATE SKIP LOCKED"#,
        stocks as &[StockId],
    )
    .fetch_all(connection)
    .await
}

/// The stocks of orders, by id.
pub(super) fn of(orders: &[Order]) -> Vec<StockId> {
    let mut ids: Vec<StockId> = orders.iter().flat_map(|o| &o.items).filter_map(|item| item.stock).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
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

/// Products that are no longer physical: they have no stock to be booked in.
pub(super) struct Turned(HashSet<Uuid>);

impl Turned {
    /// Notes them in an order that is to be sent.
    pub(super) fn judge(&self, order: &mut Order) {
        for item in &mut order.items {
            item.is_physical &= !self.0.contains(&item.product.get());
        }
    }
}

/// Looks which products of locked stocks that are all zeros have stopped being physical, and keeps the others so: of a stock that
/// is not zero, the product stays physical by that.
pub(super) async fn turned(connection: &mut PgConnection, locked: &Locked) -> Result<Turned, sqlx::Error> {
    if locked.zero.is_empty() {
        return Ok(Turned(HashSet::new()));
    }
    let physical = sqlx::query_scalar!(
        "SELECT id FROM product WHERE id = ANY($1) AND type = 'physical' ORDER BY id FOR KEY SHARE",
        &locked.zero,
    )
    .fetch_all(connection)
    .await?;
    Ok(Turned(locked.zero.iter().copied().filter(|product| !physical.contains(product)).collect()))
}

/// Makes the stocks that orders lack, and notes them.
pub(super) async fn make_missing(by: By<'_>, orders: &mut [&mut Order]) -> Result<(), sqlx::Error> {
    let wanted = missing(orders);
    if !wanted.is_empty() {
        note(orders, &by.make(&wanted).await?);
    }
    Ok(())
}

/// The stocks that orders lack.
fn missing(orders: &[&mut Order]) -> Vec<Wanted> {
    let lacks = |order: &&mut Order| -> Vec<Wanted> {
        let items = order.items.iter().filter(|item| item.stock.is_none());
        let wanted = |product| Wanted { organisation: order.organisation, product, place: order.place };
        items.map(|item| wanted(item.product)).collect()
    };
    orders.iter().flat_map(lacks).collect()
}

/// Notes the stocks that were made for orders.
fn note(orders: &mut [&mut Order], made: &HashMap<(ProductId, Place), StockId>) {
    for order in orders {
        let place = order.place;
        for item in order.items.iter_mut().filter(|item| item.stock.is_none()) {
            item.stock = made.get(&(item.product, place)).copied();
            // no stock was made for it: it has just stopped being physical
            item.is_physical &= item.stock.is_some();
        }
    }
}

/// The stocks that products have in their places.
async fn find(
    executor: impl PgExecutor<'_>,
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
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let place = Place { warehouse: row.warehouse_id.into(), wms: row.wms_id.into() };
            ((ProductId::from(row.product_id), place), StockId::from(row.id))
        })
        .collect())
}
