//! An order as it is stored, compared with a body.

use std::borrow::Cow;

use serde_json::{Map, Value};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::expedition::body::{Body, Detail};
use crate::expedition::order::{self, Order};
use crate::expedition::references::Resolved;
use longshore_kernel::access::Scope;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::input::Given;

/// An order, as it is stored.
pub(in crate::expedition) struct Stored {
    pub(in crate::expedition) order: Order,
    pub(in crate::expedition) detail: Detail,
    pub(super) user: Option<Uuid>,
    pub(in crate::expedition) digest: Option<Vec<u8>>,
    pub(super) removed_virtual_products: Value,
    bundles: Value,
    /// Its items, as far as a body gives them.
    items: Value,
}

/// Columns of an item that a body does not give.
const OF_THE_SERVICE: &[&str] = &[
    "id",
    "expedition_id",
    "bundle_position",
    "expedited",
    "assigned_lot",
    "serial_numbers",
    "created_at",
    "changed_at",
];

impl Stored {
    /// What of a body is not so already. A record that was read and is sent back changes nothing, even where it refers to
    /// what could no longer be given.
    pub(in crate::expedition) fn news<'b>(&self, body: &'b Body) -> Cow<'b, Body> {
        let mut body = Cow::Borrowed(body);
        let items = body.items.iter().flatten().filter(|item| !item.is_left_out);
        let items = items.enumerate().map(|(position, item)| {
            let is_named_so = |sku: &String| {
                self.order.items.get(position).is_some_and(|stored| stored.product_sku == *sku)
            };
            item.row(position).filter(|_| item.product_sku.as_ref().is_none_or(is_named_so))
        });
        let items: Option<Vec<_>> = items.collect();
        if items.is_some_and(|items| Value::Array(items) == self.items) {
            body.to_mut().items = None;
        }
        let fields = &body.fields;
        let is_stored = [
            fields.warehouse_id.is_some_and(|id| id == self.detail.warehouse_id),
            fields.wms_id.is_some_and(|id| id == self.detail.wms_id),
            fields.carrier_id.is_given() && fields.carrier_id.clone().value() == self.detail.carrier_id,
            fields.carrier_service_id.is_given()
                && fields.carrier_service_id.clone().value() == self.detail.carrier_service_id,
        ];
        if is_stored.contains(&true) {
            let [warehouse, wms, carrier, service] = is_stored;
            let fields = &mut body.to_mut().fields;
            fields.warehouse_id = fields.warehouse_id.filter(|_| !warehouse);
            fields.wms_id = fields.wms_id.filter(|_| !wms);
            if carrier {
                fields.carrier_id = Given::Absent;
            }
            if service {
                fields.carrier_service_id = Given::Absent;
            }
        }
        body
    }

    /// Takes items back that come to those that it has, with the same bundles and virtual products.
    pub(in crate::expedition) fn keep_items(&self, resolved: &mut Resolved) {
        let is_same = |given: &[Value], stored: &Value| {
            let stored = stored.as_array().map(Vec::as_slice).unwrap_or_default();
            given.len() == stored.len()
                && given.iter().zip(stored).all(|(given, stored)| said(given) == said(stored))
        };
        if is_same(&resolved.items, &self.items)
            && is_same(&resolved.bundles, &self.bundles)
            && is_same(&resolved.removed_virtual_products, &self.removed_virtual_products)
        {
            resolved.items.clear();
            resolved.bundles.clear();
        }
    }
}

/// What a row says of an item, as far as a body gives it: a column that is null says nothing.
fn said(row: &Value) -> Vec<(&String, &Value)> {
    let is_said =
        |(column, value): &(&String, &Value)| !value.is_null() && !OF_THE_SERVICE.contains(&column.as_str());
    row.as_object().into_iter().flatten().filter(is_said).collect()
}

/// Locks orders of a scope, by id, and reads all that is stored of them.
pub(in crate::expedition) async fn lock(
    connection: &mut PgConnection,
    scope: &Scope,
    ids: &[ExpeditionId],
) -> Result<Vec<Stored>, sqlx::Error> {
    let orders = order::lock(connection, scope, ids).await?;
    let ids: Vec<Uuid> = orders.iter().map(|order| order.id.get()).collect();
    let rows = sqlx::query!(
        r#"SELECT to_jsonb(d) || jsonb_build_object('warehouse_id', e.warehouse_id, 'wms_id', e.wms_id, 'priority', e.priority,
                      'wait_before_processing', e.wait_before_processing)
                      AS "columns!: Json<Map<String, Value>>",
                  d.user_id, d.digest, d.removed_virtual_products,
                  (SELECT coalesce(jsonb_agg(to_jsonb(b) ORDER BY b.position), '[]')
                   FROM expedition_bundle b WHERE b.expedition_id = e.id) AS "bundles!",
                  (SELECT jsonb_agg(to_jsonb(i) - $2::text[]
                                    || jsonb_build_object('product_value', trim_scale(i.product_value)) ORDER BY i.position)
                   FROM expedition_item i WHERE i.expedition_id = e.id) AS "items!"
           FROM expedition e JOIN expedition_detail d ON d.id = e.id WHERE e.id = ANY($1) ORDER BY e.id"#,
        &ids,
        OF_THE_SERVICE as &[&str],
    )
    .fetch_all(connection)
    .await?;
    let stored = orders.into_iter().zip(rows).map(|(order, row)| {
        Ok(Stored {
            detail: Detail::of_columns(order.id.get(), order.version, row.columns.0)
                .map_err(|error| sqlx::Error::Decode(error.into()))?,
            order,
            user: row.user_id,
            digest: row.digest,
            removed_virtual_products: row.removed_virtual_products,
            bundles: row.bundles,
            items: row.items,
        })
    });
    stored.collect()
}
