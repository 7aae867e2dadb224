//! Taking over stock counts (`docs/reference/syncs.md#stocks`): rows `{productSku, quantity}` set the quantity of a product
//! in one warehouse and wms. Set-based: one statement finds the differences, one writes them with audit and events. Where
//! syncs of other e-shops count the same stocks at the same time, they are locked first ([`mark`](crate::job::mark)).

use std::collections::HashSet;

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::job::halving::{Refused, Statement, halve};
use crate::job::mark::Beside;
use crate::job::row::form::Notice;
use crate::list::fields::event::PRODUCT_STOCK_CHANGE;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::input::{Reader, Rule, int32, object, text};
use longshore_kernel::problem::Violation;
use longshore_kernel::record_change;

/// What a sync gives of a stock.
const QUANTITY: &str = "quantity";

/// The largest quantity that is taken.
pub const LARGEST_QUANTITY: i32 = 1_000_000_000;

/// One count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockRow {
    /// SKU of the product, in the organisation of the e-shop.
    pub product_sku: String,
    /// Pieces in stock, as they were given: shops that have sold more than they had count fewer than none.
    pub quantity: i32,
}

impl StockRow {
    /// Pieces that are there. To refuse a row would leave the former ones on sale.
    fn pieces(&self) -> i32 {
        self.quantity.max(0)
    }

    /// What is done to its fields.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        let taken = || Notice::new(QUANTITY, format!("was {}, and is taken as 0", self.quantity));
        if self.quantity < 0 { vec![taken()] } else { Vec::new() }
    }
}

/// Reads one row of a sync.
pub fn read_row(value: Value) -> Result<StockRow, Vec<Violation>> {
    Reader::read(value, row()).map_err(|problem| problem.violations().to_vec())
}

/// One row of a sync.
pub fn row() -> impl Rule<Out = StockRow> {
    object(|row| {
        let product_sku = row.required("productSku", text(1..=255));
        let quantity = row.required("quantity", int32(-LARGEST_QUANTITY..=LARGEST_QUANTITY));
        Some(StockRow { product_sku: product_sku?, quantity: quantity? })
    })
}

/// Where counts are set.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Organisation whose products they are.
    pub organisation: OrganisationId,
    /// Physical warehouse.
    pub warehouse: Uuid,
    /// Wms in it.
    pub wms: Uuid,
}

/// Why a row was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No product of the organisation, as far as the caller may see them, has this SKU.
    UnknownProduct,
    /// The product is virtual or a bundle: it has no stock (`docs/reference/products.md#types`).
    NotStocked,
    /// It was found by halving.
    Found(Refused),
}

impl Refusal {
    /// What is wrong with the row.
    #[must_use]
    pub fn violation(&self) -> Violation {
        let (path, code, message) = match self {
            Self::UnknownProduct => {
                ("productSku", "unknown_product", "belongs to no product of the organisation")
            }
            Self::NotStocked => ("productSku", "not_stocked", "belongs to a product that has no stock"),
            Self::Found(refused) => ("", refused.code, refused.message.as_str()),
        };
        Violation::new(path, code, message)
    }
}

/// What came of the rows.
#[derive(Debug, Default)]
pub struct Applied {
    /// Rows that were written.
    pub changed: usize,
    /// Rows that were refused, by their position among those given.
    pub refused: Vec<(usize, Refusal)>,
}

/// Sets quantities, of products of one e-shop where the caller is bound to it. SKUs are distinct; rows whose quantity is as
/// given are not written.
pub async fn apply(
    change: &mut Change<'_>,
    origin: &Origin,
    place: Place,
    eshop: Option<EshopId>,
    beside: Beside,
    rows: &[StockRow],
) -> Result<Applied, sqlx::Error> {
    let halved = halve(change.connection(), rows, &SetQuantities { origin, place, eshop, beside }).await?;
    let mut applied = Applied::default();
    for (part, (recorded, refused)) in halved.applied {
        applied.changed += usize::try_from(change.note(recorded)).unwrap_or(0);
        applied
            .refused
            .extend(refused.into_iter().map(|(position, refusal)| (part.start + position, refusal)));
    }
    let found = halved.refused.into_iter().map(|refused| (refused.position, Refusal::Found(refused)));
    applied.refused.extend(found);
    Ok(applied)
}

struct SetQuantities<'o> {
    origin: &'o Origin,
    place: Place,
    eshop: Option<EshopId>,
    beside: Beside,
}

impl Statement<StockRow> for SetQuantities<'_> {
    type Out = (Recorded, Vec<(usize, Refusal)>);

    async fn apply(&self, tx: &mut PgConnection, rows: &[StockRow]) -> Result<Self::Out, sqlx::Error> {
        set_quantities(tx, self, rows).await
    }

    async fn lock(&self, tx: &mut PgConnection, rows: &[StockRow]) -> Result<(), sqlx::Error> {
        lock(tx, self, rows).await.map(|_| ())
    }
}

/// Compares and writes until nothing differs: once, unless a stock is created in the meantime (by a new stock advice), or a
/// product stops being physical.
async fn set_quantities(
    tx: &mut PgConnection,
    wanted: &SetQuantities<'_>,
    rows: &[StockRow],
) -> Result<(Recorded, Vec<(usize, Refusal)>), sqlx::Error> {
    let mut all = Recorded::default();
    let refused = loop {
        let later = given_later(tx, wanted, rows).await?;
        let Differing { mut counts, refused } = look(tx, wanted.place, wanted.eshop, rows).await?;
        counts.retain(|(product, _)| !later.contains(product));
        if counts.is_empty() {
            break refused;
        }
        let (products, quantities): (Vec<Uuid>, Vec<i32>) = counts.into_iter().unzip();
        let recorded = write(tx, wanted.origin, wanted.place, &products, &quantities).await?;
        all.changed += recorded.changed;
        all.lanes.extend(recorded.lanes);
        if usize::try_from(recorded.changed).ok() == Some(products.len()) {
            break refused;
        }
    };
    if wanted.beside.marks {
        let counted = lock(tx, wanted, rows).await?;
        wanted.beside.mark(tx, counted.into_iter().map(|(stock, _)| (stock, vec![QUANTITY]))).await?;
    }
    Ok((all, refused))
}

/// Locks the stocks of rows that syncs of other e-shops count, too; returns the products that a later one of them has set.
async fn given_later(
    tx: &mut PgConnection,
    wanted: &SetQuantities<'_>,
    rows: &[StockRow],
) -> Result<HashSet<Uuid>, sqlx::Error> {
    if !wanted.beside.marks && !wanted.beside.heeds {
        return Ok(HashSet::new());
    }
    let stocks = lock(tx, wanted, rows).await?;
    let ids: Vec<Uuid> = stocks.iter().map(|(stock, _)| *stock).collect();
    let later = wanted.beside.given_later(tx, &ids).await?;
    Ok(stocks
        .into_iter()
        .filter(|(stock, _)| later.contains_key(stock))
        .map(|(_, product)| product)
        .collect())
}

/// Locks the stocks that there are of the rows, by id; returns each with its product.
async fn lock(
    tx: &mut PgConnection,
    wanted: &SetQuantities<'_>,
    rows: &[StockRow],
) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    let skus: Vec<&str> = rows.iter().map(|row| row.product_sku.as_str()).collect();
    let stocks = sqlx::query!(
        "SELECT id, product_id FROM product_stock
         WHERE warehouse_id = $3 AND wms_id = $4 AND product_id = ANY(ARRAY(
             SELECT p.id FROM unnest($2::text[]) AS i (sku) CROSS JOIN LATERAL (
                 SELECT id FROM product
                 WHERE organisation_id = $1 AND product_sku >= i.sku AND product_sku <= i.sku
                   AND ($5::uuid IS NULL
                        OR EXISTS (SELECT FROM product_eshop WHERE product_id = product.id AND eshop_id = $5))
                 ORDER BY product_sku LIMIT 1
             ) p))
         ORDER BY id FOR UPDATE",
        wanted.place.organisation.get(),
        &skus as &[&str],
        wanted.place.warehouse,
        wanted.place.wms,
        wanted.eshop as Option<EshopId>,
    )
    .fetch_all(tx)
    .await?;
    Ok(stocks.into_iter().map(|stock| (stock.id, stock.product_id)).collect())
}

/// What is not as the rows say.
struct Differing {
    /// Products, each with what is to be in stock.
    counts: Vec<(Uuid, i32)>,
    refused: Vec<(usize, Refusal)>,
}

async fn look(
    tx: &mut PgConnection,
    place: Place,
    eshop: Option<EshopId>,
    rows: &[StockRow],
) -> Result<Differing, sqlx::Error> {
    let skus: Vec<&str> = rows.iter().map(|r| r.product_sku.as_str()).collect();
    let quantities: Vec<i32> = rows.iter().map(StockRow::pieces).collect();
    // each by its key, as the first in the order of SKUs: see the product sync, which reads them so, too
    let differing = sqlx::query!(
        r#"SELECT i.position AS "position!", p.id AS "product?", p.type AS "kind?"
           FROM unnest($2::text[], $3::int[]) WITH ORDINALITY AS i (sku, quantity, position)
           LEFT JOIN LATERAL (
               SELECT id, type FROM product
               WHERE organisation_id = $1 AND product_sku >= i.sku AND product_sku <= i.sku
                 AND ($6::uuid IS NULL
                      OR EXISTS (SELECT FROM product_eshop WHERE product_id = product.id AND eshop_id = $6))
               ORDER BY product_sku LIMIT 1
           ) p ON true
           LEFT JOIN LATERAL (
               SELECT quantity FROM product_stock
               WHERE product_id = p.id AND warehouse_id = $4 AND wms_id = $5 OFFSET 0
           ) s ON true
           WHERE s.quantity IS DISTINCT FROM i.quantity"#,
        place.organisation.get(),
        &skus as &[&str],
        &quantities,
        place.warehouse,
        place.wms,
        eshop as Option<EshopId>,
    )
    .fetch_all(tx)
    .await?;
    let mut refused = Vec::new();
    let mut counts = Vec::new();
    for row in differing {
        let position = usize::try_from(row.position - 1).unwrap_or(usize::MAX);
        match (row.product, row.kind.as_deref()) {
            (None, _) => refused.push((position, Refusal::UnknownProduct)),
            (Some(product), Some("physical")) => {
                counts.extend(quantities.get(position).map(|quantity| (product, *quantity)));
            }
            (Some(_), _) => refused.push((position, Refusal::NotStocked)),
        }
    }
    Ok(Differing { counts, refused })
}

/// Writes quantities of products. Stocks are locked by id first, then products that have none by theirs, then new stocks
/// are inserted by product. Products that are no longer physical are skipped.
async fn write(
    tx: &mut PgConnection,
    origin: &Origin,
    place: Place,
    products: &[Uuid],
    quantities: &[i32],
) -> Result<Recorded, sqlx::Error> {
    record_change!(
        tx,
        origin,
        "product_stock.sync",
        "product_stock",
        Some(PRODUCT_STOCK_CHANGE),
        "WITH wanted AS (
             SELECT * FROM unnest($10::uuid[], $11::int[]) AS w (product, quantity)
         ), known AS MATERIALIZED (
             SELECT s.id, s.product_id, s.quantity,
                    -- held: orders may hold pieces that a count did not find, which are not shown as booked
                    (s.quantity, s.held, s.missing, s.incoming) <> (0, 0, 0, 0) AS keeps_physical
             FROM product_stock s
             -- its few places by the product: an index of all that a warehouse or wms has is no way to find them
             WHERE s.product_id = ANY($10) AND s.warehouse_id IS NOT DISTINCT FROM $12 AND s.wms_id IS NOT DISTINCT FROM $13
             ORDER BY s.id FOR UPDATE
         ), physical AS MATERIALIZED (
             -- what has a stock here stays physical by that; of the rest, nobody may make something else meanwhile. Whoever
             -- does locks more than the key, so that this waits, and looks at the type again.
             SELECT id FROM product
             WHERE id = ANY(ARRAY(SELECT product FROM wanted EXCEPT SELECT product_id FROM known WHERE keeps_physical))
               AND type = 'physical'
             ORDER BY id FOR KEY SHARE
         ), written AS (
             INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
             SELECT uuid_v7(), $9, product, $12, $13, quantity FROM wanted
             -- never false: it makes the locks, and the look at what was, come first
             WHERE (SELECT count(*) FROM known) + (SELECT count(*) FROM physical) >= 0
               AND product IN (SELECT id FROM physical UNION ALL SELECT product_id FROM known WHERE keeps_physical)
             ORDER BY product
             ON CONFLICT (product_id, warehouse_id, wms_id) DO UPDATE
             SET quantity = excluded.quantity, version = product_stock.version + 1
             -- one that appeared meanwhile is left to the next look: its movement is the difference to what was
             WHERE product_stock.quantity <> excluded.quantity AND product_stock.id IN (SELECT id FROM known)
             RETURNING id, version, changed_at, product_id, quantity, booked
         ), moved AS (
             INSERT INTO stock_movement (id, organisation_id, product_id, warehouse_id, wms_id, kind, quantity, incoming,
                                         actor_type, actor_id, actor_name)
             SELECT uuid_v7(), $9, w.product_id, $12, $13, 'counted', w.quantity - coalesce(k.quantity, 0), 0, $1, $2, $3
             FROM written w LEFT JOIN known k ON k.id = w.id
             WHERE w.quantity <> coalesce(k.quantity, 0)
         ), changed AS (
             SELECT w.id AS entity, w.version, w.changed_at AS at, $9 AS organisation,
                    ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = w.product_id
                          UNION SELECT eshop_id FROM eshop_warehouse WHERE warehouse_id = $12) AS eshops,
                    ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = w.product_id) AS seen_by,
                    jsonb_build_object('quantity', jsonb_build_array(k.quantity, w.quantity)) AS changes,
                    event_data(w.id,
                        jsonb_build_object('organisation', $9, 'product', w.product_id, 'productSku', p.product_sku,
                            'warehouse', $12, 'wms', $13),
                        '{quantity, available}',
                        jsonb_build_object('quantity', w.quantity, 'available', w.quantity - w.booked)) AS data
             FROM written w
             JOIN product p ON p.id = w.product_id
             LEFT JOIN known k ON k.id = w.id
         )",
        place.organisation.get(),
        products,
        quantities,
        place.warehouse,
        place.wms,
    )
    .await
}
