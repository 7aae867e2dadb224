//! Taking over the orders of an e-shop (`docs/reference/orders.md#import`): the rows of a chunk are created, changed or cancelled
//! in one transaction, in their order, and sent exactly as sending does.
//!
//! The stocks that new orders lack are made for the whole chunk before its first lock, so that they wait for nobody who waits for
//! the chunk. Rows of one order (a create and a cancel) are taken by different statements: then all orders and stocks of the chunk
//! are locked before the first of them.
//!
//! A row is matched by its `orderNumber` in the e-shop. The digest of the row that was last taken is kept, so that the same row
//! changes nothing when it comes again, even where a person has corrected the order since.

mod group;
mod row;

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use self::group::Group;
pub use self::row::{Row, read_row, schema};
use super::order::{self, Place};
use super::stocks::{self, By, Wanted};
use crate::job::halving::{Refused, Statement, halve};
use longshore_kernel::access::Scope;
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{EshopId, ExpeditionId, OrganisationId, ProductId, StockId};
use longshore_kernel::metrics::OrderCounts;
use longshore_kernel::problem::Violation;
use longshore_kernel::queue::Hint;
use longshore_kernel::services::Services;

/// Items that are taken over together, bundles taken apart: a row of a kilobyte may name a bundle of a thousand parts.
const ITEMS: usize = 5_000;

/// What an import is.
#[derive(Clone, Copy, Debug)]
pub struct Import<'i> {
    /// Who imports.
    pub origin: &'i Origin,
    /// Organisation of the e-shop.
    pub organisation: OrganisationId,
    /// The e-shop.
    pub eshop: EshopId,
    /// Whether new orders are sent, where their rows do not say it.
    pub send: Option<bool>,
    /// When it was accepted: the first row is created then, each later one a microsecond later.
    pub accepted_at: DateTime<Utc>,
}

impl Import<'_> {
    fn scope(&self) -> Scope {
        Scope::Eshop { organisation: self.organisation, eshop: self.eshop }
    }
}

/// What came of rows.
#[derive(Debug, Default)]
pub struct Applied {
    /// Rows that created or changed an order.
    pub changed: usize,
    /// Rows that were refused, by their position.
    pub refused: Vec<(usize, Vec<Violation>)>,
    /// Webhooks that have something due.
    lanes: Vec<Hint>,
    counts: OrderCounts,
    /// Orders that were created.
    created: Vec<(String, Known)>,
}

/// An order, and the digest of the row that it was last taken from.
type Known = (ExpeditionId, Option<Vec<u8>>);

/// A row, its position in the job, and the stocks that its order may be booked in.
#[derive(Clone, Copy, Debug)]
struct Placed<'r> {
    row: &'r Row,
    index: i32,
    stocks: &'r [StockId],
}

/// Takes over rows; `indexes` are their positions in the job.
pub async fn apply(
    change: &mut Change<'_>,
    import: Import<'_>,
    rows: &[Row],
    indexes: &[i32],
) -> Result<Applied, sqlx::Error> {
    let known = known(change.connection(), import.eshop, rows).await?;
    let mut survey = survey(change.connection(), import, rows, &known).await?;
    survey.make_lacking(change).await?;
    let parts = &survey.parts;
    let placed: Vec<Placed<'_>> = rows
        .iter()
        .zip(indexes)
        .zip(&survey.stocks)
        .map(|((row, index), stocks)| Placed { row, index: *index, stocks })
        .collect();
    let mut taking = Taking { import, services: change.services(), is_whole: change.is_whole(), known };
    let mut applied = Applied::default();
    let mut start = 0;
    while start < rows.len() {
        let count = group(&rows[start..], &parts[start..]);
        if start == 0 && count < rows.len() {
            taking.lock(change.connection(), &placed).await?;
        }
        let halved = halve(change.connection(), &placed[start..start + count], &taking).await?;
        for (part, done) in halved.applied {
            let start = start + part.start;
            let refused = done.refused.into_iter().map(|(at, violations)| (start + at, violations));
            applied.refused.extend(refused);
            applied.changed += done.changed;
            taking.known.extend(done.created);
            change.note_lanes(done.lanes);
            change.note_orders(done.counts);
        }
        for Refused { position, code, message } in halved.refused {
            applied.refused.push((start + position, vec![Violation::new("", code, message)]));
        }
        start += count;
    }
    Ok(applied)
}

/// The orders of the e-shop that rows name, by their numbers.
async fn known(
    connection: &mut PgConnection,
    eshop: EshopId,
    rows: &[Row],
) -> Result<HashMap<String, Known>, sqlx::Error> {
    let numbers: Vec<&str> = rows.iter().map(|row| row.order_number.as_str()).collect();
    let rows = sqlx::query!(
        // each by its key, independent of the statistics
        "SELECT d.id, d.order_number, d.digest
         FROM unnest($2::text[]) AS g (number)
         CROSS JOIN LATERAL (
             SELECT id, order_number, digest FROM expedition_detail
             WHERE eshop_id = $1 AND order_number = g.number LIMIT 1
         ) d",
        eshop.get(),
        &numbers as &[&str],
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.order_number, (row.id.into(), row.digest))).collect())
}

/// The known orders that rows may change.
fn touched(rows: &[Placed<'_>], known: &HashMap<String, Known>) -> Vec<ExpeditionId> {
    let other = rows.iter().map(|placed| placed.row).filter(|row| !row.is_same(known));
    other.filter_map(|row| known.get(&row.order_number)).map(|(id, _)| *id).collect()
}

/// How many of the first rows are taken over together. Each number is among them once, since an order may be created and
/// cancelled in one chunk; each external id too, so that the later of two orders is refused for it.
fn group(rows: &[Row], parts: &[usize]) -> usize {
    let (mut numbers, mut external_ids, mut items) = (HashSet::new(), HashSet::new(), 0);
    for (count, (row, parts)) in rows.iter().zip(parts).enumerate() {
        items += row.items().count() + parts;
        let is_new = row.external_id().is_none_or(|id| external_ids.insert(id));
        if !(numbers.insert(&row.order_number) && is_new) || (items > ITEMS && count > 0) {
            return count;
        }
    }
    rows.len()
}

/// What the items of rows are, before any of them is locked.
struct Survey {
    /// How many items each row has in the place of its bundles.
    parts: Vec<usize>,
    /// The stocks that the order of each row may be booked in.
    stocks: Vec<Vec<StockId>>,
    /// The stocks that new orders will be booked in, and that are not there yet, each with the place of its row.
    lacking: Vec<(usize, Wanted)>,
}

impl Survey {
    /// Makes the stocks that new orders lack. The caller holds no locks, or is whole.
    async fn make_lacking(&mut self, change: &mut Change<'_>) -> Result<(), sqlx::Error> {
        if self.lacking.is_empty() {
            return Ok(());
        }
        let wanted: Vec<Wanted> = self.lacking.iter().map(|(_, wanted)| *wanted).collect();
        let made = By::of(change).make(&wanted).await?;
        for (row, Wanted { product, place, .. }) in &self.lacking {
            self.stocks[*row].extend(made.get(&(*product, *place)));
        }
        Ok(())
    }
}

async fn survey(
    connection: &mut PgConnection,
    import: Import<'_>,
    rows: &[Row],
    known: &HashMap<String, Known>,
) -> Result<Survey, sqlx::Error> {
    let (mut of, mut products, mut skus, mut orders) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut warehouses, mut wms, mut sends) = (Vec::new(), Vec::new(), Vec::new());
    for (row, at) in rows.iter().zip(0_i64..).filter(|(row, _)| !row.is_same(known)) {
        let (warehouse, of_wms) = row.place();
        for item in row.items() {
            of.push(at);
            products.push(item.product);
            skus.push(item.product_sku.as_deref());
            orders.push(known.get(&row.order_number).map(|(id, _)| id.get()));
            warehouses.push(warehouse);
            wms.push(of_wms);
            sends.push(row.sends(import.send));
        }
    }
    let found = sqlx::query!(
        // each by its key, independent of the statistics
        r#"WITH shop AS MATERIALIZED (
               SELECT s.default_warehouse_id AS warehouse, w.default_wms_id AS wms, NOT s.edit_before_processing AS sends
               FROM eshop s LEFT JOIN warehouse w ON w.id = ANY (ARRAY[s.default_warehouse_id]) WHERE s.id = $2
           )
           SELECT g.row AS "row!", l.warehouse AS "warehouse?", l.wms AS "wms?", count(c.product_id) AS "parts!",
                  array_remove(array_agg(k.id), NULL) AS "stocks!",
                  array_remove(array_agg(CASE WHEN m.lacks THEN coalesce(c.product_id, p.id) END), NULL) AS "lacking!"
           FROM unnest($3::bigint[], $4::uuid[], $5::text[], $6::uuid[], $7::uuid[], $8::uuid[], $9::boolean[])
               AS g (row, product, sku, known, warehouse, wms, sends)
           CROSS JOIN shop
           CROSS JOIN LATERAL (
               (SELECT id, type, active FROM product WHERE id = g.product AND organisation_id IS NOT DISTINCT FROM $1)
               UNION ALL
               (SELECT id, type, active FROM product
                WHERE organisation_id = $1 AND product_sku >= g.sku AND product_sku <= g.sku ORDER BY product_sku LIMIT 1)
           ) p
           LEFT JOIN LATERAL (
               SELECT product_id FROM product_child WHERE bundle_id = p.id AND p.type = 'bundle' OFFSET 0
           ) c ON true
           LEFT JOIN LATERAL (
               SELECT warehouse_id AS warehouse, wms_id AS wms FROM expedition WHERE id = g.known OFFSET 0
           ) e ON true
           CROSS JOIN LATERAL (
               SELECT coalesce(g.warehouse, e.warehouse, shop.warehouse) AS warehouse,
                      coalesce(g.wms, CASE WHEN g.warehouse IS NULL THEN coalesce(e.wms, shop.wms)
                                      ELSE (SELECT default_wms_id FROM warehouse WHERE id = g.warehouse) END) AS wms
               OFFSET 0
           ) l
           LEFT JOIN LATERAL (
               SELECT id FROM product_stock
               WHERE product_id = coalesce(c.product_id, p.id) AND warehouse_id = l.warehouse AND wms_id = l.wms
                 AND coalesce(g.sends, shop.sends)
               OFFSET 0
           ) k ON true
           CROSS JOIN LATERAL (
               -- an order that is known, or refused, gets no stock by this
               SELECT CASE
                   WHEN k.id IS NOT NULL OR g.known IS NOT NULL OR p.type NOT IN ('physical', 'bundle')
                        OR NOT coalesce(g.sends, shop.sends) THEN false
                   ELSE p.active
                        AND EXISTS (SELECT FROM product_eshop WHERE product_id = p.id AND eshop_id = $2)
                        AND EXISTS (SELECT FROM eshop_warehouse WHERE eshop_id = $2 AND warehouse_id = l.warehouse)
                        AND EXISTS (SELECT FROM warehouse_wms WHERE warehouse_id = l.warehouse AND wms_id = l.wms)
                   END AS lacks
               OFFSET 0
           ) m
           GROUP BY g.row, l.warehouse, l.wms
           HAVING count(c.product_id) > 0 OR count(k.id) > 0 OR bool_or(m.lacks)"#,
        import.organisation.get(),
        import.eshop.get(),
        &of,
        &products as &[Option<Uuid>],
        &skus as &[Option<&str>],
        &orders as &[Option<Uuid>],
        &warehouses as &[Option<Uuid>],
        &wms as &[Option<Uuid>],
        &sends as &[Option<bool>],
    )
    .fetch_all(connection)
    .await?;
    let mut survey =
        Survey { parts: vec![0; rows.len()], stocks: vec![Vec::new(); rows.len()], lacking: Vec::new() };
    for found in found {
        let Some(row) = usize::try_from(found.row).ok().filter(|row| *row < rows.len()) else { continue };
        survey.parts[row] = usize::try_from(found.parts).unwrap_or(usize::MAX);
        survey.stocks[row] = found.stocks.into_iter().map(StockId::from).collect();
        if let (Some(warehouse), Some(wms)) = (found.warehouse, found.wms) {
            let place = Place { warehouse: warehouse.into(), wms: wms.into() };
            let wanted = |product| {
                let product = ProductId::from(product);
                (row, Wanted { organisation: import.organisation, product, place })
            };
            survey.lacking.extend(found.lacking.into_iter().map(wanted));
        }
    }
    Ok(survey)
}

/// Takes over rows of different orders, all or none.
struct Taking<'i> {
    import: Import<'i>,
    services: &'i Services,
    /// Whether its transaction is whole.
    is_whole: bool,
    /// The orders that rows name, by their numbers: those that were there when the chunk began, and those that it has created.
    known: HashMap<String, Known>,
}

impl<'r> Statement<Placed<'r>> for Taking<'_> {
    type Out = Applied;

    async fn apply(&self, tx: &mut PgConnection, rows: &[Placed<'r>]) -> Result<Applied, sqlx::Error> {
        let Self { import, services, is_whole, ref known } = *self;
        Group { import, services, is_whole, scope: &import.scope(), known, rows }.apply(tx).await
    }

    async fn lock(&self, tx: &mut PgConnection, rows: &[Placed<'r>]) -> Result<(), sqlx::Error> {
        let orders = order::lock(tx, &self.import.scope(), &touched(rows, &self.known)).await?;
        let mut stocks = stocks::of(&orders);
        stocks.extend(rows.iter().flat_map(|placed| placed.stocks));
        let locked = stocks::lock_ids(tx, &stocks).await?;
        stocks::turned(tx, &locked).await.map(|_| ())
    }
}
