//! `/api/stock-advice` (`docs/reference/warehouses.md#stock-advice`).

use std::ops::Deref;

use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use crate::product;
use crate::support::Reply;

mod access;
mod create;
mod ledger;
mod receive;

pub(crate) use crate::product::MIGRATIONS;

pub(crate) const PATH: &str = "/api/stock-advice";

/// The service with a supplier, and the world of products.
pub(crate) struct World {
    world: product::World,
    pub(crate) supplier: Uuid,
}

impl Deref for World {
    type Target = product::World;
    fn deref(&self) -> &product::World {
        &self.world
    }
}

impl World {
    pub(crate) async fn new(options: &PgConnectOptions) -> Self {
        let world = product::World::new(options).await;
        let supplier = supplier(&world, world.api.tenant.organisation.get()).await;
        Self { world, supplier }
    }

    /// The required members of a create.
    pub(crate) fn advice(&self, internal_id: &str, items: &[(&str, i64)]) -> Value {
        advice(&self.api.tenant, self.supplier, internal_id, items)
    }

    /// Announces goods; returns the record.
    pub(crate) async fn announce(&self, internal_id: &str, items: &[(&str, i64)]) -> Value {
        self.api.post(&self.api.user, PATH, self.advice(internal_id, items)).await.expect(201).json()
    }

    /// Requests the receipt of pieces of the items at these positions.
    pub(crate) async fn receive(&self, advice: &Value, items: &[(usize, i64)], close: bool) -> Reply {
        self.api.put(&self.api.user, &path(advice, "receive"), receipt(advice, items, close)).await
    }

    /// Requests the cancellation.
    pub(crate) async fn cancel(&self, advice: &Value) -> Reply {
        self.api.put(&self.api.user, &path(advice, "cancel"), Value::Null).await
    }

    /// `[quantity, incoming]` of a product, over all warehouses and wms.
    pub(crate) async fn stock(&self, product: &str) -> [i64; 2] {
        let (quantity, incoming) = sqlx::query_as(
            "SELECT coalesce(sum(quantity), 0), coalesce(sum(incoming), 0) FROM product_stock
             WHERE product_id = $1::uuid",
        )
        .bind(product)
        .fetch_one(&self.owner)
        .await
        .unwrap();
        [quantity, incoming]
    }

    /// The number of stocks that do not match the advices and the movements, which must be 0.
    pub(crate) async fn contradictions(&self) -> i64 {
        self.count(
            "WITH moved AS (
                 SELECT product_id, warehouse_id, wms_id, sum(quantity) AS quantity, sum(incoming) AS incoming
                 FROM stock_movement GROUP BY 1, 2, 3
             ), advised AS (
                 SELECT i.product_id, a.warehouse_id, a.wms_id, sum(greatest(i.quantity - i.received, 0)) AS incoming
                 FROM stock_advice a JOIN stock_advice_item i ON i.stock_advice_id = a.id
                 WHERE a.status IN ('new', 'receiving') GROUP BY 1, 2, 3
             ), stock AS (
                 SELECT product_id, warehouse_id, wms_id, quantity, incoming FROM product_stock
             ), arrived AS (
                 SELECT i.stock_advice_id AS id, i.product_id, sum(i.received) AS pieces
                 FROM stock_advice_item i GROUP BY 1, 2
             ), recorded AS (
                 SELECT stock_advice_id AS id, product_id, sum(quantity) AS pieces
                 FROM stock_movement WHERE kind = 'received' GROUP BY 1, 2
             )
             SELECT (SELECT count(*) FROM stock FULL JOIN moved USING (product_id, warehouse_id, wms_id)
                     WHERE (coalesce(stock.quantity, 0), coalesce(stock.incoming, 0))
                         IS DISTINCT FROM (coalesce(moved.quantity, 0), coalesce(moved.incoming, 0)))
                  + (SELECT count(*) FROM stock FULL JOIN advised USING (product_id, warehouse_id, wms_id)
                     WHERE coalesce(stock.incoming, 0) <> coalesce(advised.incoming, 0))
                  + (SELECT count(*) FROM arrived FULL JOIN recorded USING (id, product_id)
                     WHERE coalesce(arrived.pieces, 0) <> coalesce(recorded.pieces, 0))",
        )
        .await
    }
}

/// A supplier of an organisation.
pub(crate) async fn supplier(world: &product::World, organisation: Uuid) -> Uuid {
    sqlx::query_scalar(
        "INSERT INTO supplier (id, organisation_id, name, active) VALUES (uuid_v7(), $1, 'Potter', true) RETURNING id",
    )
    .bind(organisation)
    .fetch_one(&world.owner)
    .await
    .unwrap()
}

pub(crate) fn advice(tenant: &Tenant, supplier: Uuid, internal_id: &str, items: &[(&str, i64)]) -> Value {
    let items: Vec<_> =
        items.iter().map(|(product, quantity)| json!({"product": product, "quantity": quantity})).collect();
    json!({
        "organisation": tenant.organisation,
        "warehouse": tenant.warehouse,
        "wms": tenant.wms,
        "supplier": supplier,
        "internalId": internal_id,
        "expectedAt": "2030-01-02T03:04:05+01:00",
        "items": items,
    })
}

pub(crate) fn path(advice: &Value, action: &str) -> String {
    format!("{PATH}/{}/{action}", advice["id"].as_str().unwrap())
}

pub(crate) fn receipt(advice: &Value, items: &[(usize, i64)], close: bool) -> Value {
    let items: Vec<_> = items
        .iter()
        .map(|(position, quantity)| json!({"id": advice["items"][*position]["id"], "quantity": quantity}))
        .collect();
    json!({"items": items, "close": close})
}
