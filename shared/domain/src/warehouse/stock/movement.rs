//! Stock movements of stock advices. Every movement is kept, and `quantity` and `incoming` of a stock always equal the sums of its
//! movements: one statement writes both. (A stock sync writes its own, kind `counted`, in [`sync`](super::sync).)

use uuid::Uuid;

use crate::list::fields::event::PRODUCT_STOCK_CHANGE;
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::StockAdviceId;
use longshore_kernel::problem::{CONFLICT, Problem};
use longshore_kernel::record_change;
use longshore_kernel::sqlstate::is_out_of_range;

pub use super::sync::Place;

/// What an advice does to a stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pieces are on their way.
    Announced,
    /// Pieces have come.
    Received,
    /// Pieces that were announced will not come.
    Withdrawn,
}

impl Kind {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Announced => "announced",
            Self::Received => "received",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// One movement; those of one kind and product are recorded as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The product.
    pub product: Uuid,
    /// Why.
    pub kind: Kind,
    /// What is added to `quantity`.
    pub quantity: i32,
    /// What is added to `incoming`.
    pub incoming: i32,
}

/// Moves stocks of one place, for an advice; what came is of the receipt. Stocks are locked by id first, then new ones are inserted by product, as a
/// stock sync does; the second insert finds an existing stock.
pub async fn apply(
    change: &mut Change<'_>,
    origin: &Origin,
    action: &str,
    advice: StockAdviceId,
    place: Place,
    moves: &[Move],
    receipt: Option<Uuid>,
) -> Result<(), Problem> {
    let products: Vec<Uuid> = moves.iter().map(|m| m.product).collect();
    let kinds: Vec<&str> = moves.iter().map(|m| m.kind.as_str()).collect();
    let quantities: Vec<i32> = moves.iter().map(|m| m.quantity).collect();
    let incomings: Vec<i32> = moves.iter().map(|m| m.incoming).collect();
    let recorded = record_change!(
        change.connection(),
        origin,
        action,
        "product_stock",
        Some(PRODUCT_STOCK_CHANGE),
        "WITH move AS MATERIALIZED (
             SELECT product, kind, sum(quantity)::int AS quantity, sum(incoming)::int AS incoming
             FROM unnest($10::uuid[], $11::text[], $12::int[], $13::int[]) AS m (product, kind, quantity, incoming)
             GROUP BY product, kind HAVING sum(quantity) <> 0 OR sum(incoming) <> 0
         ), wanted AS MATERIALIZED (
             SELECT product, sum(quantity)::int AS quantity, sum(incoming)::int AS incoming FROM move GROUP BY product
         ), known AS MATERIALIZED (
             SELECT s.id, s.product_id FROM product_stock s
             -- by the product, as in the stock sync
             WHERE s.product_id = ANY(ARRAY(SELECT product FROM wanted))
               AND s.warehouse_id IS NOT DISTINCT FROM $14 AND s.wms_id IS NOT DISTINCT FROM $15
             ORDER BY s.id FOR UPDATE
         ), updated AS (
             UPDATE product_stock s
             SET quantity = s.quantity + w.quantity, incoming = s.incoming + w.incoming,
                 version = s.version + 1
             FROM known k JOIN wanted w ON w.product = k.product_id
             WHERE s.id = ANY (ARRAY[k.id])
             RETURNING s.id, s.version, s.changed_at, s.product_id, s.quantity, s.incoming, s.booked
         ), inserted AS (
             INSERT INTO product_stock AS s (id, organisation_id, product_id, warehouse_id, wms_id, quantity, incoming)
             SELECT uuid_v7(), $9, product, $14, $15, quantity, incoming FROM wanted
             WHERE product NOT IN (SELECT product_id FROM known)
             ORDER BY product
             ON CONFLICT (product_id, warehouse_id, wms_id) DO UPDATE
             SET quantity = s.quantity + excluded.quantity, incoming = s.incoming + excluded.incoming,
                 version = s.version + 1
             RETURNING s.id, s.version, s.changed_at, s.product_id, s.quantity, s.incoming, s.booked
         ), written AS (
             SELECT * FROM updated UNION ALL SELECT * FROM inserted
         ), moved AS (
             INSERT INTO stock_movement (id, organisation_id, product_id, warehouse_id, wms_id, kind, quantity, incoming,
                                         stock_advice_id, receipt_id, actor_type, actor_id, actor_name)
             SELECT uuid_v7(), $9, product, $14, $15, kind, quantity, incoming, $16,
                    CASE WHEN kind = 'received' THEN $17::uuid END, $1, $2, $3
             FROM move
         ), changed AS (
             SELECT w.id AS entity, w.version, w.changed_at AS at, $9 AS organisation,
                    ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = w.product_id
                          UNION SELECT eshop_id FROM eshop_warehouse WHERE warehouse_id = $14) AS eshops,
                    ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = w.product_id) AS seen_by,
                    f.changes,
                    event_data(w.id,
                        jsonb_build_object('organisation', $9, 'product', w.product_id, 'productSku', p.product_sku,
                            'warehouse', $14, 'wms', $15),
                        f.names, f.fields) AS data
             FROM written w
             JOIN wanted m ON m.product = w.product_id
             JOIN product p ON p.id = w.product_id
             CROSS JOIN LATERAL (
                 SELECT jsonb_object_agg(name, becomes) AS fields, array_agg(name ORDER BY name) AS names,
                        jsonb_object_agg(name, jsonb_build_array(becomes - added, becomes))
                            FILTER (WHERE name <> 'available') AS changes
                 FROM (VALUES ('quantity', w.quantity, m.quantity), ('available', w.quantity - w.booked, m.quantity),
                              ('incoming', w.incoming, m.incoming)) AS f (name, becomes, added)
                 WHERE added <> 0
             ) AS f
             WHERE m.quantity <> 0 OR m.incoming <> 0
         )",
        place.organisation.get(),
        &products,
        &kinds as &[&str],
        &quantities,
        &incomings,
        place.warehouse,
        place.wms,
        advice.get(),
        receipt,
    )
    .await;
    match recorded {
        Ok(recorded) => {
            change.note(recorded);
            Ok(())
        }
        Err(error) if is_out_of_range(&error) => {
            Err(Problem::new(&CONFLICT, "the stock of a product would exceed the maximum"))
        }
        Err(error) => Err(error.into()),
    }
}
