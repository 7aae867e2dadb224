//! Writes what a report makes of an order: the order, what left of its items, its parcels, and the event.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::Step;
use crate::expedition::handover;
use crate::expedition::order::Order;
use crate::expedition::report::Parcel;
use crate::expedition::write::{StockColumns, booked_event, change_event, record_orders, status_event};
use crate::list::fields::event::EXPEDITION_CHANGE;
use crate::list::fields::expedition::{ExpeditionStatus as Status, HandoverState};
use crate::record::{FieldChange, changes_json};
use longshore_kernel::change::RecordedRows;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{ExpeditionItemId, StockId};
use longshore_kernel::queue::Hint;

pub(super) async fn write(
    connection: &mut PgConnection,
    origin: &Origin,
    order: &Order,
    step: &mut Step,
) -> Result<Vec<Hint>, sqlx::Error> {
    let stocks: StockColumns = step.ledger.settle().into_iter().collect();
    let (old, state) = (&order.state, &step.state);
    // first: a status that takes an order back follows from it
    let is_kept = old.handover != state.handover && state.handover == Some(HandoverState::Accepted);
    let handed: Vec<_> =
        handover::Step::by_hand(order, state, is_kept.then_some(handover::KEPT)).into_iter().collect();
    handover::write(connection, &handed).await?;
    if let Some(left) = &step.left {
        move_out(connection, origin, order, left, &step.found).await?;
    }
    write_parcels(connection, order, step).await?;
    let tracking = if step.parcels.is_empty() { Vec::new() } else { tracking(connection, order).await? };
    let mut changes = Vec::new();
    let mut add = |field, old: Value, new: Value| {
        if old != new {
            changes.push(FieldChange { field, old, new });
        }
    };
    add("status", json!(old.status), json!(state.status));
    add("errors", json!(old.errors), json!(state.errors));
    add("handover", json!(old.handover), json!(state.handover));
    for ((field, old), (_, new)) in step.had.shown().into_iter().zip(step.times.shown()) {
        add(field, old, new);
    }
    if !step.parcels.is_empty() {
        let numbers: Vec<_> = step.parcels.iter().map(|parcel| &parcel.number).collect();
        add("parcels", Value::Null, json!(numbers));
    }
    add("trackingNumber", json!(step.tracked.number), json!(step.tracking.number));
    add("trackingUrl", json!(step.tracked.url), json!(step.tracking.url));
    let (event, data) = if old.status == state.status {
        (Some(EXPEDITION_CHANGE.name), change_event(order, state.status, &changes, tracking))
    } else {
        let mut further = tracking;
        further.extend(step.left().into_iter().flat_map(|left| order.packed(left)));
        (None, status_event(order, Some(old.status), state, &changes, further))
    };
    // of pieces that leave, the status event is enough
    let gives_back = old.status.is_booked() && !state.status.is_booked() && step.left.is_none();
    let booked = gives_back.then(|| booked_event(order, state.status).to_string());
    let recorded: RecordedRows = record_orders!(
        connection,
        &[origin],
        stocks,
        "WITH verified AS (SELECT true AS ok), written AS (
             UPDATE expedition
             SET status = $19, errors = $20, packed_at = $21, sent_at = $22, delivered_at = $23,
                 expedited_completely = coalesce($24, expedited_completely), canceling_from = $29,
                 -- what an order in doubt waited for that is given back
                 waits_for_id = CASE WHEN is_waiting($19) THEN waits_for_id END,
                 waits_quantity = CASE WHEN is_waiting($19) THEN waits_quantity END,
                 reservation_paused = reservation_paused AND is_waiting($19),
                 version = version + $30::boolean::int
             WHERE id = $18
             RETURNING id, version, CASE WHEN $30::boolean THEN changed_at ELSE clock_timestamp() END AS changed_at,
                       organisation_id, eshop_id
         )",
        "SELECT id AS entity, organisation_id AS organisation, ARRAY[eshop_id] AS eshops, $25::jsonb AS changes,
                $26::text::jsonb AS data, version, changed_at AS at, 1::bigint AS origin, 'expedition.status' AS action,
                NULL::text AS kind,
                -- a change that the record does not show is only in the audit
                CASE WHEN $30::boolean THEN coalesce($28::text, $15::text) END AS event
         FROM written
         UNION ALL
         SELECT id, organisation_id, ARRAY[eshop_id], NULL, $27::text::jsonb, version, changed_at, 1, NULL, NULL, $16::text
         FROM written WHERE $27::text IS NOT NULL",
        order.id.get(),
        state.status.as_str(),
        state.errors.clone() as Option<Value>,
        step.times.packed as Option<DateTime<Utc>>,
        step.times.sent as Option<DateTime<Utc>>,
        step.times.delivered as Option<DateTime<Utc>>,
        step.is_complete(order) as Option<bool>,
        changes_json(&changes),
        data.to_string(),
        booked as Option<String>,
        event as Option<&str>,
        state.canceling_from.map(Status::as_str) as Option<&str>,
        step.is_shown(order),
    )
    .await?;
    Ok(recorded.lanes)
}

/// The tracking of a status event: all parcels of the order, as its record shows them. So a receiver that keeps the value of
/// the highest version has what is stored.
async fn tracking(
    connection: &mut PgConnection,
    order: &Order,
) -> Result<Vec<(&'static str, Value)>, sqlx::Error> {
    let order = sqlx::query!(
        r#"SELECT d.tracking_number, d.tracking_url,
                  (SELECT jsonb_agg(jsonb_build_object('extPackageNumber', p.ext_package_number,
                              'extPackageTrackingNumber', p.ext_package_tracking_number,
                              'extCarrierTrackingNumber', p.ext_carrier_tracking_number, 'trackingUrl', p.tracking_url)
                          ORDER BY p.created_at, p.ext_package_number)
                   FROM expedition_parcel p WHERE p.expedition_id = d.id) AS "parcels!"
           FROM expedition_detail d WHERE d.id = $1"#,
        order.id.get(),
    )
    .fetch_one(connection)
    .await?;
    Ok(vec![
        ("trackingNumber", json!(order.tracking_number)),
        ("trackingUrl", json!(order.tracking_url)),
        ("parcels", order.parcels),
    ])
}

/// Records that pieces leave: on the items, and as movements of their stocks.
async fn move_out(
    connection: &mut PgConnection,
    origin: &Origin,
    order: &Order,
    left: &[(ExpeditionItemId, StockId, i32)],
    found: &[(StockId, i64)],
) -> Result<(), sqlx::Error> {
    let ids: Vec<Uuid> = left.iter().map(|(id, ..)| id.get()).collect();
    let counts: Vec<i32> = left.iter().map(|(.., n)| *n).collect();
    let product =
        |stock: StockId| order.items.iter().find(|item| item.stock == Some(stock)).map(|i| i.product.get());
    let (found_products, found_counts): (Vec<Uuid>, Vec<i32>) = found
        .iter()
        .filter_map(|(stock, n)| Some((product(*stock)?, i32::try_from(*n).unwrap_or(i32::MAX))))
        .unzip();
    sqlx::query!(
        "WITH packed AS (
             UPDATE expedition_item i SET expedited = g.n, changed_at = clock_timestamp()
             FROM unnest($1::uuid[], $2::int[]) AS g (id, n) WHERE i.id = g.id
             RETURNING i.id, i.product_id, i.expedited
         )
         INSERT INTO stock_movement (id, organisation_id, product_id, warehouse_id, wms_id, kind, quantity, incoming,
                                     expedition_id, expedition_item_id, actor_type, actor_id, actor_name)
         SELECT uuid_v7(), $5::uuid, m.product, $6::uuid, $7::uuid, m.kind, m.quantity, 0, $8::uuid, m.item, $9::text,
                $10::uuid, $11::text
         FROM (SELECT product, 'found' AS kind, n AS quantity, NULL::uuid AS item
               FROM unnest($3::uuid[], $4::int[]) AS f (product, n)
               UNION ALL
               SELECT product_id, 'expedited', -expedited, id FROM packed WHERE expedited > 0) AS m",
        &ids,
        &counts,
        &found_products,
        &found_counts,
        order.organisation.get(),
        order.place.warehouse.get(),
        order.place.wms.get(),
        order.id.get(),
        origin.actor.kind,
        origin.actor.id,
        origin.actor.name,
    )
    .execute(connection)
    .await
    .map(|_| ())
}

/// Writes parcels, and where the order can be tracked.
async fn write_parcels(connection: &mut PgConnection, order: &Order, step: &Step) -> Result<(), sqlx::Error> {
    let parcels = &step.parcels;
    if !parcels.is_empty() {
        let numbers: Vec<&str> = parcels.iter().map(|parcel| parcel.number.as_str()).collect();
        let column =
            |of: fn(&Parcel) -> Option<&str>| -> Vec<Option<&str>> { parcels.iter().map(of).collect() };
        sqlx::query!(
            "INSERT INTO expedition_parcel (id, expedition_id, ext_package_number, ext_package_tracking_number,
                                            ext_carrier_tracking_number, tracking_url, changed_at)
             SELECT uuid_v7(), $1, g.*, clock_timestamp() FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS g
             ON CONFLICT (expedition_id, ext_package_number) DO UPDATE
             SET ext_package_tracking_number = excluded.ext_package_tracking_number,
                 ext_carrier_tracking_number = excluded.ext_carrier_tracking_number,
                 tracking_url = excluded.tracking_url, changed_at = excluded.changed_at",
            order.id.get(),
            &numbers as &[&str],
            &column(|parcel| parcel.package_tracking_number.as_deref()) as &[Option<&str>],
            &column(|parcel| parcel.carrier_tracking_number.as_deref()) as &[Option<&str>],
            &column(|parcel| parcel.tracking_url.as_deref()) as &[Option<&str>],
        )
        .execute(&mut *connection)
        .await?;
    }
    if step.tracking != step.tracked {
        sqlx::query!(
            "UPDATE expedition_detail SET tracking_number = $2, tracking_url = $3 WHERE id = $1",
            order.id.get(),
            step.tracking.number.as_deref(),
            step.tracking.url.as_deref(),
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}
