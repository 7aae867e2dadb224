//! The pieces that leave: on the items of orders that are packed, and as movements of stocks.

use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::fold::{Fold, Gone};
use crate::expedition::allocator::{Demand, Ledger};
use crate::expedition::decision::let_go;
use crate::expedition::order::Order;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{ExpeditionId, StockId};

/// Pieces that leave, and pieces that were found for that.
#[derive(Default)]
pub(super) struct Movements {
    kinds: Vec<&'static str>,
    quantities: Vec<i32>,
    orders: Vec<Uuid>,
    items: Vec<Option<Uuid>>,
    products: Vec<Uuid>,
}

impl Movements {
    /// Takes what the orders hold or give back out of the stocks, in their order.
    pub(super) fn of(folds: &[Fold<'_>], ledger: &mut Ledger) -> Self {
        let demand =
            |gone: &[Gone]| Demand::new(gone.iter().map(|gone| (gone.stock, i64::from(gone.left.pieces))));
        let mut movements = Self::default();
        for fold in folds {
            if let Some(left) = &fold.left {
                let found = ledger.pack(&fold.order.entered(), &demand(left));
                movements.add(fold.order, left, &found);
            } else {
                let_go(fold.order, &fold.state, ledger);
            }
            for gone in fold.strays.iter().filter_map(|stray| stray.gone.as_ref()) {
                let found = ledger.leave(&demand(gone));
                movements.add(fold.order, gone, &found);
            }
        }
        movements
    }

    fn add(&mut self, order: &Order, gone: &[Gone], found: &[(StockId, i64)]) {
        for (stock, more) in found {
            if let Some(gone) = gone.iter().find(|gone| gone.stock == *stock) {
                let more = i32::try_from(*more).unwrap_or(i32::MAX);
                self.push("found", more, order.id, None, gone.product.get());
            }
        }
        for gone in gone.iter().filter(|gone| gone.left.pieces > 0) {
            self.push("expedited", -gone.left.pieces, order.id, Some(gone.item.get()), gone.product.get());
        }
    }

    fn push(
        &mut self,
        kind: &'static str,
        quantity: i32,
        order: ExpeditionId,
        item: Option<Uuid>,
        product: Uuid,
    ) {
        self.kinds.push(kind);
        self.quantities.push(quantity);
        self.orders.push(order.get());
        self.items.push(item);
        self.products.push(product);
    }

    /// Records that pieces leave: on the items of those that are packed, and as movements of their stocks.
    pub(super) async fn write(
        &self,
        connection: &mut PgConnection,
        origin: &Origin,
        folds: &[Fold<'_>],
    ) -> Result<(), sqlx::Error> {
        let left: Vec<&Gone> =
            folds.iter().flat_map(|fold| fold.left.iter().flatten().chain(&fold.detailed)).collect();
        if left.is_empty() && self.kinds.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = left.iter().map(|gone| gone.item.get()).collect();
        let counts: Vec<i32> = left.iter().map(|gone| gone.left.pieces).collect();
        let lots: Vec<Option<String>> = left.iter().map(|gone| gone.left.lot()).collect();
        let serials: Vec<Option<String>> = left
            .iter()
            .map(|gone| (!gone.left.serials.is_empty()).then(|| json!(gone.left.serials).to_string()))
            .collect();
        sqlx::query!(
            "WITH packed AS (
                 UPDATE expedition_item i
                 SET expedited = g.n, assigned_lot = g.lot, changed_at = clock_timestamp(),
                     serial_numbers = CASE WHEN g.serials IS NULL THEN i.serial_numbers
                                           ELSE ARRAY(SELECT jsonb_array_elements_text(g.serials::jsonb)) END
                 FROM unnest($1::uuid[], $2::int[], $3::text[], $4::text[]) AS g (id, n, lot, serials)
                 WHERE i.id = ANY (ARRAY[g.id])
             )
             INSERT INTO stock_movement (id, organisation_id, product_id, warehouse_id, wms_id, kind, quantity, incoming,
                                         expedition_id, expedition_item_id, actor_type, actor_id, actor_name)
             SELECT uuid_v7(), e.organisation_id, m.product, e.warehouse_id, e.wms_id, m.kind, m.quantity, 0, e.id, m.item,
                    $10::text, $11::uuid, $12::text
             FROM unnest($5::text[], $6::int[], $7::uuid[], $8::uuid[], $9::uuid[])
                 WITH ORDINALITY AS m (kind, quantity, expedition, item, product, place)
             JOIN expedition e ON e.id = ANY (ARRAY[m.expedition])
             ORDER BY m.place",
            &ids,
            &counts,
            &lots as &[Option<String>],
            &serials as &[Option<String>],
            &self.kinds as &[&str],
            &self.quantities,
            &self.orders,
            &self.items as &[Option<Uuid>],
            &self.products,
            origin.actor.kind,
            origin.actor.id,
            origin.actor.name,
        )
        .execute(connection)
        .await
        .map(|_| ())
    }
}
