//! Writing changed orders.

use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::stored::Stored;
use crate::expedition::body::{Detail, masked};
use crate::expedition::order::{Item, Order};
use crate::expedition::references::Resolved;
use crate::expedition::write::detail::detail_row;
use crate::expedition::write::{ENTITY, change_event};
use crate::list::fields::event::EXPEDITION_CHANGE;
use crate::record::{FieldChange, changes_json};
use longshore_kernel::change::RecordedRows;
use longshore_kernel::context::Origin;
use longshore_kernel::queue::Hint;
use longshore_kernel::record_each;

/// What changes, for the audit: what is personal is masked.
pub(in crate::expedition) fn differences(stored: &Stored, resolved: &Resolved) -> Vec<FieldChange> {
    let old: Map<_, _> = stored.detail.shown();
    let new: Map<_, _> = resolved.detail.shown();
    let mut changes: Vec<FieldChange> = Detail::NAMES
        .iter()
        .filter(|name| old.get(**name) != new.get(**name))
        .map(|name| {
            let of = |record: &Map<String, Value>| record.get(*name).cloned().unwrap_or_default();
            masked(FieldChange { field: name, old: of(&old), new: of(&new) })
        })
        .collect();
    let (was, becomes) = (&stored.order.shipper, &resolved.order.shipper);
    if was.choice != becomes.choice {
        changes.push(FieldChange {
            field: "carrierChoice",
            old: json!(was.choice),
            new: json!(becomes.choice),
        });
    }
    if !resolved.items.is_empty() {
        let items = |order: &Order| -> Value {
            let show = |item: &Item| json!({"product": item.product, "quantity": item.quantity});
            order.items.iter().map(show).collect()
        };
        changes.push(FieldChange { field: "items", old: items(&stored.order), new: items(&resolved.order) });
    }
    changes
}

/// An order that a body changes.
pub(in crate::expedition) struct Edited {
    pub(in crate::expedition) stored: Stored,
    pub(in crate::expedition) resolved: Resolved,
    pub(in crate::expedition) changes: Vec<FieldChange>,
    /// SHA-256 of the row that was taken, where an import changes it.
    pub(in crate::expedition) digest: Option<[u8; 32]>,
    /// Whether it is sent again in the same transaction, which then says what became of it.
    pub(in crate::expedition) is_sent: bool,
    /// Its place among the origins.
    pub(in crate::expedition) origin: usize,
}

impl Edited {
    fn gives_items(&self) -> bool {
        !self.resolved.items.is_empty()
    }

    /// The order as it is since.
    pub(in crate::expedition) fn order(&self) -> Order {
        let (old, new) = (&self.stored.order, &self.resolved.order);
        let mut items = if self.gives_items() { new.items.clone() } else { old.items.clone() };
        if !self.gives_items() && old.place != new.place {
            // their stocks are those of the old place
            for item in &mut items {
                item.stock = None;
            }
        }
        let edits = self.changes.clone();
        Order { state: old.state.clone(), items, version: old.version, edits, ..new.clone() }
    }

    /// Its row of `expedition`, as far as a body changes it.
    fn head(&self) -> Value {
        let Self { stored, resolved, .. } = self;
        let counts = self.gives_items();
        json!({
            "id": stored.order.id, "warehouse_id": resolved.order.place.warehouse, "wms_id": resolved.order.place.wms,
            "priority": resolved.detail.priority.unwrap_or(0),
            "wait_before_processing": resolved.detail.wait_before_processing,
            "count_of_items": counts.then_some(resolved.items.len()),
            "count_of_sku": counts.then(|| resolved.count_of_sku()),
            "sum_of_quantity": counts.then(|| resolved.sum_of_quantity()),
        })
    }

    fn detail(&self) -> Value {
        let Self { stored, resolved, .. } = self;
        let removed = if self.gives_items() {
            resolved.removed_virtual_products.clone()
        } else {
            stored.removed_virtual_products.as_array().cloned().unwrap_or_default()
        };
        let digest = stored.digest.as_ref().and_then(|digest| <[u8; 32]>::try_from(digest.as_slice()).ok());
        detail_row(&resolved.order, &resolved.detail, &removed, stored.user, self.digest.or(digest))
    }
}

/// Writes changed orders. Their rows of details are written anew: they have dozens of columns, and no other row refers to them.
pub(in crate::expedition) async fn write(
    connection: &mut PgConnection,
    origins: &[&Origin],
    orders: &[Edited],
) -> Result<Vec<Hint>, sqlx::Error> {
    let id = |edited: &Edited| edited.stored.order.id.get();
    let ids: Vec<Uuid> = orders.iter().map(id).collect();
    let with_items: Vec<Uuid> = orders.iter().filter(|edited| edited.gives_items()).map(id).collect();
    sqlx::query!("DELETE FROM expedition_detail WHERE id = ANY($1)", &ids).execute(&mut *connection).await?;
    if !with_items.is_empty() {
        keep_handed_over(connection, &with_items).await?;
        sqlx::query!("DELETE FROM expedition_item WHERE expedition_id = ANY($1)", &with_items)
            .execute(&mut *connection)
            .await?;
        sqlx::query!("DELETE FROM expedition_bundle WHERE expedition_id = ANY($1)", &with_items)
            .execute(&mut *connection)
            .await?;
    }
    let places: Vec<i64> = orders.iter().map(|e| i64::try_from(e.origin + 1).unwrap_or(1)).collect();
    let changes: Vec<String> = orders.iter().map(|e| changes_json(&e.changes).to_string()).collect();
    let data: Vec<Option<String>> = orders
        .iter()
        .map(|edited| {
            let event = || {
                change_event(&edited.order(), edited.stored.order.state.status, &edited.changes, Vec::new())
            };
            (!edited.is_sent).then(|| event().to_string())
        })
        .collect();
    let recorded: RecordedRows = record_each!(
        connection,
        origins,
        "expedition.update",
        ENTITY,
        None,
        "WITH given AS MATERIALIZED (
             SELECT h.*, g.origin, g.changes, g.event_data
             FROM unnest($9::uuid[], $10::bigint[], $11::text[], $16::text[]) AS g (id, origin, changes, event_data)
             JOIN jsonb_populate_recordset(NULL::expedition, $12::jsonb) AS h ON h.id = g.id
         ), detail AS (
             INSERT INTO expedition_detail
             SELECT d.* FROM jsonb_array_elements($13::jsonb) AS r (value)
             CROSS JOIN LATERAL jsonb_populate_record(NULL::expedition_detail,
                                                      r.value || jsonb_build_object('modified_at', now())) AS d
         ), bundles AS (
             INSERT INTO expedition_bundle SELECT * FROM jsonb_populate_recordset(NULL::expedition_bundle, $14::jsonb)
         ), items AS (
             INSERT INTO expedition_item
             SELECT i.* FROM jsonb_array_elements($15::jsonb) AS r (value)
             CROSS JOIN LATERAL jsonb_populate_record(
                 NULL::expedition_item,
                 r.value || jsonb_build_object('created_at', now(), 'changed_at', clock_timestamp())) AS i
         ), written AS (
             UPDATE expedition e
             SET warehouse_id = g.warehouse_id, wms_id = g.wms_id, priority = g.priority,
                 wait_before_processing = g.wait_before_processing,
                 count_of_items = coalesce(g.count_of_items, e.count_of_items),
                 count_of_sku = coalesce(g.count_of_sku, e.count_of_sku),
                 sum_of_quantity = coalesce(g.sum_of_quantity, e.sum_of_quantity), version = e.version + 1
             FROM given g WHERE e.id = ANY (ARRAY[g.id])
             RETURNING e.id, e.version, e.changed_at, e.organisation_id, e.eshop_id, g.origin, g.changes, g.event_data
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, ARRAY[eshop_id] AS eshops,
                    changes::jsonb AS changes, event_data::jsonb AS data, origin, NULL::text AS action, NULL::text AS kind,
                    CASE WHEN event_data IS NOT NULL THEN $17::text END AS event
             FROM written
         )",
        &ids,
        &places,
        &changes,
        orders.iter().map(Edited::head).collect::<Value>(),
        orders.iter().map(Edited::detail).collect::<Value>(),
        orders.iter().flat_map(|e| e.resolved.bundles.iter().cloned()).collect::<Value>(),
        orders.iter().flat_map(|e| e.resolved.items.iter().cloned()).collect::<Value>(),
        &data as &[Option<String>],
        EXPEDITION_CHANGE.name,
    )
    .await?;
    Ok(recorded.lanes)
}

/// Keeps the items of orders with which these were handed over, before others replace them.
async fn keep_handed_over(connection: &mut PgConnection, ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO expedition_former_item (expedition_id, number, position, id, product_id, quantity)
         SELECT i.expedition_id, h.handover_number, i.position, i.id, i.product_id, i.quantity
         FROM unnest($1::uuid[]) AS g (id)
         JOIN expedition_handover h ON h.id = ANY (ARRAY[g.id])
         JOIN expedition_item i ON i.expedition_id = ANY (ARRAY[g.id])
         -- replaced before, they are those of that number no more; looked up by the key, independent of the statistics
         CROSS JOIN LATERAL (
             SELECT count(*) AS n FROM (SELECT FROM expedition_former_item f
                                        WHERE f.expedition_id = g.id AND f.number = h.handover_number LIMIT 1) AS one
         ) AS former
         WHERE former.n = 0",
        ids,
    )
    .execute(connection)
    .await
    .map(|_| ())
}
