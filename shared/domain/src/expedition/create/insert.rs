//! Inserting orders by one statement, in which those that are to be sent are booked.

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::New;
use crate::expedition::allocator::Ledger;
use crate::expedition::body::Detail;
use crate::expedition::decision;
use crate::expedition::order::{Order, State};
use crate::expedition::references::Resolved;
use crate::expedition::stocks;
use crate::expedition::write::detail::detail_row;
use crate::expedition::write::{StockColumns, Were, booked_event, record_orders, status_event};
use crate::list::fields::expedition::ExpeditionStatus as Status;
use crate::record::{FieldChange, changes_json};
use longshore_kernel::change::RecordedRows;
use longshore_kernel::context::Origin;
use longshore_kernel::metrics::OrderCounts;
use longshore_kernel::queue::Hint;

/// What inserting orders amounts to: the webhooks that have something due, and what to count.
pub(in crate::expedition) type Inserted = (Vec<Hint>, OrderCounts);

/// Locks the stocks of those orders that are to be sent, then inserts all.
pub(super) async fn place(
    connection: &mut PgConnection,
    origins: &[&Origin],
    orders: &mut [New],
) -> Result<Inserted, sqlx::Error> {
    let sent: Vec<Order> =
        orders.iter().filter(|new| new.send).map(|new| new.resolved.order.clone()).collect();
    let mut ledger = Ledger::default();
    if !sent.is_empty() {
        let locked = stocks::lock(connection, &sent).await?;
        let turned = stocks::turned(connection, &locked).await?;
        orders.iter_mut().filter(|new| new.send).for_each(|new| turned.judge(&mut new.resolved.order));
        ledger = locked.ledger;
    }
    insert_placed(connection, origins, orders, &mut ledger).await
}

/// Inserts orders whose stocks are locked, and books those that are to be sent.
pub(in crate::expedition) async fn insert_placed(
    connection: &mut PgConnection,
    origins: &[&Origin],
    orders: &[New],
    ledger: &mut Ledger,
) -> Result<Inserted, sqlx::Error> {
    Ok(insert(connection, origins, orders, ledger, true).await?.unwrap_or_default())
}

/// The same; where the stocks are not locked, only if they still are as the ledger has them. `None`: they are not.
pub(super) async fn insert(
    connection: &mut PgConnection,
    origins: &[&Origin],
    orders: &[New],
    ledger: &mut Ledger,
    are_locked: bool,
) -> Result<Option<Inserted>, sqlx::Error> {
    let mut rows = Rows::default();
    let mut counts = OrderCounts { placed: orders.len(), ..OrderCounts::default() };
    for new in orders {
        let state = if new.send { decision::send(&new.resolved.order, ledger)? } else { State::default() };
        counts.booked += usize::from(state.status.is_booked());
        rows.push(new, &state);
    }
    let mut stocks: StockColumns = ledger.settle().into_iter().collect();
    if are_locked {
        stocks.were = Were::default();
    }
    let recorded: RecordedRows = record_orders!(
        connection,
        origins,
        stocks,
        "WITH verified AS MATERIALIZED (
             SELECT count(*) = cardinality($28::int[]) AS ok
             FROM unnest($9::uuid[], $28::int[], $29::bigint[], $30::bigint[], $31::boolean[])
                 AS r (id, quantity, held, missing, is_marked)
             CROSS JOIN LATERAL (
                 SELECT FROM product_stock s
                 WHERE s.id = r.id AND s.quantity = r.quantity AND s.held = r.held AND s.missing = r.missing
                   AND (s.marked_at IS NOT NULL) = r.is_marked
                 -- one that another transaction has locked is about to change
                 FOR UPDATE SKIP LOCKED
             ) AS locked
         ), given AS MATERIALIZED (
             SELECT * FROM unnest($22::uuid[], $23::bigint[], $24::text[], $25::text[], $26::text[], $27::text[])
             AS g (id, origin, created, sent, event_data, booked)
         ), head AS (
             INSERT INTO expedition (id, organisation_id, eshop_id, warehouse_id, wms_id, status, priority,
                                     wait_before_processing, count_of_items, count_of_sku, sum_of_quantity, waits_for_id,
                                     waits_quantity, errors, address_validation_executed, created_at)
             SELECT id, organisation_id, eshop_id, warehouse_id, wms_id, status, coalesce(priority, 0),
                    wait_before_processing, count_of_items, count_of_sku, sum_of_quantity, waits_for_id, waits_quantity,
                    errors, address_validation_executed, coalesce(created_at, now())
             FROM jsonb_populate_recordset(NULL::expedition, $18::jsonb) WHERE (SELECT ok FROM verified)
             RETURNING id, version, changed_at, organisation_id, eshop_id
         ), detail AS (
             INSERT INTO expedition_detail
             SELECT d.* FROM jsonb_array_elements($19::jsonb) AS r (value)
             CROSS JOIN LATERAL jsonb_populate_record(NULL::expedition_detail,
                                                      r.value || jsonb_build_object('modified_at', now())) AS d
             WHERE (SELECT ok FROM verified)
         ), bundles AS (
             INSERT INTO expedition_bundle SELECT * FROM jsonb_populate_recordset(NULL::expedition_bundle, $20::jsonb)
             WHERE (SELECT ok FROM verified)
         ), items AS (
             INSERT INTO expedition_item
             SELECT i.* FROM jsonb_array_elements($21::jsonb) AS r (value)
             CROSS JOIN LATERAL jsonb_populate_record(
                 NULL::expedition_item,
                 r.value || jsonb_build_object('created_at', now(), 'changed_at', clock_timestamp())) AS i
             WHERE (SELECT ok FROM verified)
         ), written AS (
             SELECT h.*, g.origin, g.created, g.sent, g.event_data, g.booked FROM head h JOIN given g ON g.id = h.id
         )",
        // what is sent is audited twice, with one version: its creation is the earlier
        "SELECT id AS entity, organisation_id AS organisation, ARRAY[eshop_id] AS eshops, created::jsonb AS changes,
                CASE WHEN sent IS NULL THEN event_data::jsonb END AS data, version,
                changed_at - CASE WHEN sent IS NULL THEN interval '0' ELSE interval '1 microsecond' END AS at, origin,
                'expedition.create' AS action, NULL::text AS kind, CASE WHEN sent IS NULL THEN $15::text END AS event
         FROM written
         UNION ALL
         SELECT id, organisation_id, ARRAY[eshop_id], sent::jsonb, event_data::jsonb, version, changed_at, origin, 'expedition.send',
                NULL, $15::text
         FROM written WHERE sent IS NOT NULL
         UNION ALL
         SELECT id, organisation_id, ARRAY[eshop_id], NULL, booked::jsonb, version, changed_at, origin, NULL, NULL, $16::text
         FROM written WHERE booked IS NOT NULL",
        Value::Array(rows.heads),
        Value::Array(rows.details),
        Value::Array(rows.bundles),
        Value::Array(rows.items),
        &rows.ids,
        &rows.origins,
        &rows.created,
        &rows.sent as &[Option<String>],
        &rows.data,
        &rows.booked as &[Option<String>],
        &stocks.were.quantities,
        &stocks.were.held,
        &stocks.were.missing,
        &stocks.were.are_marked,
    )
    .await?;
    Ok(Some((recorded.lanes, counts)).filter(|_| !recorded.entities.is_empty()))
}

/// The rows of new orders, and what is recorded of each.
#[derive(Default)]
struct Rows {
    heads: Vec<Value>,
    details: Vec<Value>,
    bundles: Vec<Value>,
    items: Vec<Value>,
    ids: Vec<Uuid>,
    origins: Vec<i64>,
    created: Vec<String>,
    sent: Vec<Option<String>>,
    data: Vec<String>,
    booked: Vec<Option<String>>,
}

impl Rows {
    fn push(&mut self, new: &New, state: &State) {
        let Resolved { order, detail, items, bundles, removed_virtual_products, .. } = &new.resolved;
        self.heads.push(json!({
            "id": order.id, "organisation_id": order.organisation, "eshop_id": order.eshop,
            "warehouse_id": order.place.warehouse, "wms_id": order.place.wms, "status": state.status,
            "priority": detail.priority, "wait_before_processing": detail.wait_before_processing,
            "count_of_items": order.items.len(), "count_of_sku": new.resolved.count_of_sku(),
            "sum_of_quantity": new.resolved.sum_of_quantity(),
            "waits_for_id": state.waits_for.map(|lack| lack.stock),
            "waits_quantity": state.waits_for.map(|lack| lack.quantity),
            "errors": state.errors, "address_validation_executed": state.is_address_checked,
            "created_at": new.created_at,
        }));
        self.details.push(detail_row(order, detail, removed_virtual_products, new.user, new.digest));
        self.bundles.extend(bundles.iter().cloned());
        self.items.extend(items.iter().cloned());
        self.ids.push(order.id.get());
        self.origins.push(i64::try_from(new.origin + 1).unwrap_or(1));
        self.created.push(created(order, detail, new.resolved.sum_of_quantity()).to_string());
        let sends = |status: Status| {
            let status = change("status", json!(Status::OnHold), json!(status));
            changes_json(&[vec![status], order.chosen()].concat())
        };
        self.sent.push(new.send.then(|| sends(state.status).to_string()));
        self.data.push(status_event(order, None, state, &[], Vec::new()).to_string());
        self.booked.push(state.status.is_booked().then(|| booked_event(order, state.status).to_string()));
    }
}

fn change(field: &'static str, old: Value, new: Value) -> FieldChange {
    FieldChange { field, old, new }
}

/// What the audit says of a creation: nothing personal.
fn created(order: &Order, detail: &Detail, pieces: i64) -> Value {
    let said = [
        ("orderNumber", json!(detail.order_number)),
        ("externalId", json!(detail.external_id)),
        ("status", json!(Status::OnHold)),
        ("countOfItems", json!(order.items.len())),
        ("sumOfQuantity", json!(pieces)),
        ("value", json!(detail.value)),
        ("currency", json!(detail.currency)),
    ];
    changes_json(&crate::record::creation(said))
}
