//! Writes what reports made of orders: a few statements for all of them.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::PgConnection;
use std::collections::HashMap;
use uuid::Uuid;

use super::fold::{Fold, Gone};
use super::row::Row;
use crate::expedition::allocator::{Demand, Ledger};
use crate::expedition::order::Order;
use crate::expedition::progress::Parcel;
use crate::expedition::write::{StockColumns, booked_event, record_orders, status_event};
use crate::list::fields::expedition::{ExpeditionStatus as Status, HandoverState};
use crate::record::{FieldChange, changes_json};
use longshore_kernel::change::RecordedRows;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{ExpeditionId, StockId, WebhookId, WmsId};

/// Writes everything; returns the webhooks that have something due.
pub(super) async fn write(
    connection: &mut PgConnection,
    origin: &Origin,
    folds: &[Fold<'_>],
    ledger: &mut Ledger,
) -> Result<Vec<WebhookId>, sqlx::Error> {
    let movements = Movements::of(folds, ledger);
    movements.write(connection, origin, folds).await?;
    write_parcels(connection, folds).await?;
    write_tracking(connection, folds).await?;
    write_handovers(connection, folds).await?;
    write_strays(connection, folds).await?;
    let tracking = tracking(connection, folds).await?;
    write_orders(connection, origin, folds, ledger, tracking).await
}

/// Pieces that leave, and pieces that were found for that.
#[derive(Default)]
struct Movements {
    kinds: Vec<&'static str>,
    quantities: Vec<i32>,
    orders: Vec<Uuid>,
    items: Vec<Option<Uuid>>,
    products: Vec<Uuid>,
}

impl Movements {
    /// Takes what the orders hold or give back out of the stocks, in their order.
    fn of(folds: &[Fold<'_>], ledger: &mut Ledger) -> Self {
        let demand = |gone: &[Gone]| Demand::new(gone.iter().map(|gone| (gone.stock, i64::from(gone.pieces))));
        let mut movements = Self::default();
        for fold in folds {
            if fold.gives_back() {
                ledger.release(&fold.order.demand());
            }
            if let Some(left) = &fold.left {
                let found = ledger.pack(&fold.order.demand(), &demand(left));
                movements.add(fold.order, left, &found);
            }
            for stray in &fold.strays {
                let found = ledger.leave(&demand(&stray.gone));
                movements.add(fold.order, &stray.gone, &found);
            }
        }
        movements
    }

    fn add(&mut self, order: &Order, gone: &[Gone], found: &[(StockId, i64)]) {
        for (stock, more) in found {
            if let Some(item) = order.items.iter().find(|item| item.stock == Some(*stock)) {
                let more = i32::try_from(*more).unwrap_or(i32::MAX);
                self.push("found", more, order.id, None, item.product.get());
            }
        }
        for gone in gone.iter().filter(|gone| gone.pieces > 0) {
            if let Some(item) = order.items.iter().find(|item| item.id == gone.item) {
                self.push("expedited", -gone.pieces, order.id, Some(item.id.get()), item.product.get());
            }
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
    async fn write(
        &self,
        connection: &mut PgConnection,
        origin: &Origin,
        folds: &[Fold<'_>],
    ) -> Result<(), sqlx::Error> {
        let left: Vec<&Gone> = folds.iter().flat_map(|fold| fold.left.iter().flatten()).collect();
        if left.is_empty() && self.kinds.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = left.iter().map(|gone| gone.item.get()).collect();
        let counts: Vec<i32> = left.iter().map(|gone| gone.pieces).collect();
        let lots: Vec<Option<&str>> = left.iter().map(|gone| gone.lot.as_deref()).collect();
        let serials: Vec<Option<String>> = left
            .iter()
            .map(|gone| (!gone.serials.is_empty()).then(|| json!(gone.serials).to_string()))
            .collect();
        sqlx::query!(
            "WITH packed AS (
                 UPDATE expedition_item i
                 SET expedited = g.n, assigned_lot = g.lot, changed_at = now(),
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
            &lots as &[Option<&str>],
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

/// Parcels that are new, or known in another way since.
fn new_parcels<'f>(fold: &'f Fold<'_>) -> impl Iterator<Item = &'f Parcel> {
    fold.known.parcels.iter().filter(|parcel| !fold.had.parcels.contains(parcel))
}

async fn write_parcels(connection: &mut PgConnection, folds: &[Fold<'_>]) -> Result<(), sqlx::Error> {
    let parcels: Vec<(Uuid, &Parcel)> = folds
        .iter()
        .flat_map(|fold| new_parcels(fold).map(|parcel| (fold.order.id.get(), parcel)))
        .collect();
    if parcels.is_empty() {
        return Ok(());
    }
    let orders: Vec<Uuid> = parcels.iter().map(|(order, _)| *order).collect();
    let numbers: Vec<&str> = parcels.iter().map(|(_, parcel)| parcel.number.as_str()).collect();
    let column = |of: fn(&Parcel) -> Option<&str>| -> Vec<Option<&str>> {
        parcels.iter().map(|(_, parcel)| of(parcel)).collect()
    };
    sqlx::query!(
        "INSERT INTO expedition_parcel (id, expedition_id, ext_package_number, ext_package_tracking_number,
                                        ext_carrier_tracking_number, tracking_url)
         SELECT uuid_v7(), g.* FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[]) AS g
         ON CONFLICT (expedition_id, ext_package_number) DO UPDATE
         SET ext_package_tracking_number = excluded.ext_package_tracking_number,
             ext_carrier_tracking_number = excluded.ext_carrier_tracking_number,
             tracking_url = excluded.tracking_url, changed_at = now()",
        &orders,
        &numbers as &[&str],
        &column(|parcel| parcel.package_tracking_number.as_deref()) as &[Option<&str>],
        &column(|parcel| parcel.carrier_tracking_number.as_deref()) as &[Option<&str>],
        &column(|parcel| parcel.tracking_url.as_deref()) as &[Option<&str>],
    )
    .execute(connection)
    .await
    .map(|_| ())
}

/// Writes where orders can be tracked, where their parcels say it first.
async fn write_tracking(connection: &mut PgConnection, folds: &[Fold<'_>]) -> Result<(), sqlx::Error> {
    let is_new = |fold: &&Fold<'_>| {
        let (had, known) = (&fold.had, &fold.known);
        had.tracking_number != known.tracking_number || had.tracking_url != known.tracking_url
    };
    let tracked: Vec<&Fold<'_>> = folds.iter().filter(is_new).collect();
    if tracked.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = tracked.iter().map(|fold| fold.order.id.get()).collect();
    let numbers: Vec<_> = tracked.iter().map(|fold| fold.known.tracking_number.as_deref()).collect();
    let urls: Vec<_> = tracked.iter().map(|fold| fold.known.tracking_url.as_deref()).collect();
    sqlx::query!(
        "UPDATE expedition_detail d SET tracking_number = g.number, tracking_url = g.url
         FROM unnest($1::uuid[], $2::text[], $3::text[]) AS g (id, number, url) WHERE d.id = ANY (ARRAY[g.id])",
        &ids,
        &numbers as &[Option<&str>],
        &urls as &[Option<&str>],
    )
    .execute(connection)
    .await
    .map(|_| ())
}

/// Writes what the reports say of hand-overs, before the statuses: what follows from those is left to the database (migration
/// 0035).
async fn write_handovers(connection: &mut PgConnection, folds: &[Fold<'_>]) -> Result<(), sqlx::Error> {
    let is_new = |fold: &&Fold<'_>| {
        fold.state.handover != fold.order.state.handover
            || fold.known.internal_id != fold.had.internal_id
            || fold.known.handover_error != fold.had.handover_error
    };
    let changed: Vec<&Fold<'_>> = folds.iter().filter(is_new).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = changed.iter().map(|fold| fold.order.id.get()).collect();
    let states: Vec<Option<&str>> =
        changed.iter().map(|fold| fold.state.handover.map(HandoverState::as_str)).collect();
    let errors: Vec<Option<&str>> = changed.iter().map(|fold| fold.known.handover_error).collect();
    let internal: Vec<Option<&str>> = changed.iter().map(|fold| fold.known.internal_id.as_deref()).collect();
    sqlx::query!(
        "UPDATE expedition_handover h
         SET handover_state = g.state, wms_internal_id = g.internal,
             handover_since = CASE WHEN g.is_new THEN now() ELSE h.handover_since END,
             handover_attempts = CASE WHEN g.is_new THEN 0 ELSE h.handover_attempts END,
             handover_next_attempt_at = CASE WHEN g.is_new THEN NULL ELSE h.handover_next_attempt_at END,
             -- a call may still be under way whose order the warehouse has reported of: a withdrawal waits for its end
             handover_in_call_until = CASE WHEN g.is_new AND g.state <> 'accepted' THEN NULL ELSE h.handover_in_call_until END,
             handover_error = CASE WHEN g.is_new THEN g.error ELSE h.handover_error END
         FROM (SELECT g.*, g.state IS DISTINCT FROM o.handover_state AS is_new
               FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS g (id, state, error, internal)
               JOIN expedition_handover o ON o.id = ANY (ARRAY[g.id])) AS g
         WHERE h.id = ANY (ARRAY[g.id])",
        &ids,
        &states as &[Option<&str>],
        &errors as &[Option<&str>],
        &internal as &[Option<&str>],
    )
    .execute(connection)
    .await
    .map(|_| ())
}

async fn write_strays(connection: &mut PgConnection, folds: &[Fold<'_>]) -> Result<(), sqlx::Error> {
    let (mut orders, mut numbers, mut wms, mut news) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for fold in folds {
        for stray in &fold.strays {
            orders.push(fold.order.id.get());
            numbers.push(stray.number);
            wms.push(fold.order.place.wms.get());
            news.push(stray.news.as_str());
        }
    }
    if orders.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "INSERT INTO wms_contradiction (expedition_id, number, wms_id, news_id)
         SELECT * FROM unnest($1::uuid[], $2::int[], $3::uuid[], $4::text[])",
        &orders,
        &numbers,
        &wms,
        &news as &[&str],
    )
    .execute(connection)
    .await
    .map(|_| ())
}

/// What a status event says of parcels: all that the order has, as its record shows them; of orders whose parcels were reported.
async fn tracking(
    connection: &mut PgConnection,
    folds: &[Fold<'_>],
) -> Result<HashMap<Uuid, Vec<(&'static str, Value)>>, sqlx::Error> {
    let is_told = |fold: &&Fold<'_>| {
        fold.state.status != fold.order.state.status && new_parcels(fold).next().is_some()
    };
    let ids: Vec<Uuid> = folds.iter().filter(is_told).map(|fold| fold.order.id.get()).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let told = sqlx::query!(
        r#"SELECT d.id, d.tracking_number, d.tracking_url,
                  (SELECT jsonb_agg(jsonb_build_object('extPackageNumber', p.ext_package_number,
                              'extPackageTrackingNumber', p.ext_package_tracking_number,
                              'extCarrierTrackingNumber', p.ext_carrier_tracking_number, 'trackingUrl', p.tracking_url)
                          ORDER BY p.created_at, p.ext_package_number)
                   FROM expedition_parcel p WHERE p.expedition_id = d.id) AS "parcels!"
           FROM unnest($1::uuid[]) AS g (id) JOIN expedition_detail d ON d.id = ANY (ARRAY[g.id])"#,
        &ids,
    )
    .fetch_all(connection)
    .await?;
    let fields = told.into_iter().map(|told| {
        let fields = vec![
            ("trackingNumber", json!(told.tracking_number)),
            ("trackingUrl", json!(told.tracking_url)),
            ("parcels", told.parcels),
        ];
        (told.id, fields)
    });
    Ok(fields.collect())
}

/// What the audit says of reports: what changed, and what each of them said.
fn changes(fold: &Fold<'_>) -> Value {
    let (old, state, had, known) = (&fold.order.state, &fold.state, &fold.had, &fold.known);
    let mut changes = Vec::new();
    let mut add = |field, old: Value, new: Value| {
        if old != new {
            changes.push(FieldChange { field, old, new });
        }
    };
    add("status", json!(old.status), json!(state.status));
    add("errors", json!(old.errors), json!(state.errors));
    add("handover", json!(old.handover), json!(state.handover));
    add("packedAt", json!(had.times.packed), json!(known.times.packed));
    add("sentAt", json!(had.times.sent), json!(known.times.sent));
    add("deliveredAt", json!(had.times.delivered), json!(known.times.delivered));
    let numbers: Vec<_> = new_parcels(fold).map(|parcel| &parcel.number).collect();
    if !numbers.is_empty() {
        add("parcels", Value::Null, json!(numbers));
    }
    add("trackingNumber", json!(had.tracking_number), json!(known.tracking_number));
    add("trackingUrl", json!(had.tracking_url), json!(known.tracking_url));
    add("wmsInternalId", json!(had.internal_id), json!(known.internal_id));
    add("cancel", Value::Null, json!(fold.cancel));
    let strays: Vec<_> = fold.strays.iter().map(|stray| stray.number).collect();
    if !strays.is_empty() {
        add("contradiction", Value::Null, json!(strays));
    }
    add("news", Value::Null, json!(fold.kept));
    changes_json(&changes)
}

/// Writes the orders and the stocks, with audit and events. Reports that change nothing of a record leave its version.
async fn write_orders(
    connection: &mut PgConnection,
    origin: &Origin,
    folds: &[Fold<'_>],
    ledger: &mut Ledger,
    mut tracking: HashMap<Uuid, Vec<(&'static str, Value)>>,
) -> Result<Vec<WebhookId>, sqlx::Error> {
    let stocks: StockColumns = ledger.settle().into_iter().collect();
    let ids: Vec<Uuid> = folds.iter().map(|fold| fold.order.id.get()).collect();
    let statuses: Vec<&str> = folds.iter().map(|fold| fold.state.status.as_str()).collect();
    let canceling: Vec<Option<&str>> =
        folds.iter().map(|fold| fold.state.canceling_from.map(Status::as_str)).collect();
    let errors: Vec<Option<String>> =
        folds.iter().map(|fold| fold.state.errors.as_ref().map(Value::to_string)).collect();
    let moment = |of: fn(&Fold<'_>) -> Option<DateTime<Utc>>| -> Vec<_> { folds.iter().map(of).collect() };
    let packed = moment(|fold| fold.known.times.packed);
    let sent = moment(|fold| fold.known.times.sent);
    let delivered = moment(|fold| fold.known.times.delivered);
    let complete: Vec<Option<bool>> = folds.iter().map(Fold::is_complete).collect();
    let raised: Vec<bool> = folds.iter().map(Fold::is_change).collect();
    let touched: Vec<bool> = folds
        .iter()
        .map(|fold| fold.is_change() || fold.state.canceling_from != fold.order.state.canceling_from)
        .collect();
    let audited: Vec<String> = folds.iter().map(|fold| changes(fold).to_string()).collect();
    let mut told = Vec::with_capacity(folds.len());
    let mut booked = Vec::with_capacity(folds.len());
    for fold in folds {
        let (old, new) = (fold.order.state.status, fold.state.status);
        let mut further = tracking.remove(&fold.order.id.get()).unwrap_or_default();
        further.extend(fold.cancel.map(|cancel| ("cancel", json!(cancel))));
        told.push(
            (old != new).then(|| status_event(fold.order, Some(old), &fold.state, further).to_string()),
        );
        booked.push(fold.gives_back().then(|| booked_event(fold.order, new).to_string()));
    }
    let recorded: RecordedRows = record_orders!(
        connection,
        &[origin],
        stocks,
        "WITH stands AS (SELECT true AS ok), given AS MATERIALIZED (
             SELECT * FROM unnest($17::uuid[], $18::text[], $19::text[], $20::text[], $21::timestamptz[], $22::timestamptz[],
                                  $23::timestamptz[], $24::boolean[], $25::boolean[], $26::boolean[], $27::text[], $28::text[],
                                  $29::text[])
             AS g (id, status, canceling, errors, packed, sent, delivered, complete, raised, touched, changes, told, booked)
         ), written AS (
             UPDATE expedition e
             SET status = g.status, canceling_from = g.canceling, errors = g.errors::jsonb, packed_at = g.packed,
                 sent_at = g.sent, delivered_at = g.delivered,
                 expedited_completely = coalesce(g.complete, e.expedited_completely), version = e.version + g.raised::int
             FROM given g WHERE e.id = ANY (ARRAY[g.id]) AND g.touched
             RETURNING e.id, e.version, CASE WHEN g.raised THEN e.changed_at ELSE clock_timestamp() END AS changed_at,
                       e.organisation_id, e.eshop_id, g.changes, g.told, g.booked
         ), kept AS (
             SELECT * FROM written
             UNION ALL
             SELECT e.id, e.version, clock_timestamp(), e.organisation_id, e.eshop_id, g.changes, NULL, NULL
             FROM given g JOIN expedition e ON e.id = ANY (ARRAY[g.id]) WHERE NOT g.touched
         )",
        "SELECT id AS entity, organisation_id AS organisation, ARRAY[eshop_id] AS eshops, changes::jsonb AS changes,
                told::jsonb AS data, version, changed_at AS at, 1::bigint AS origin, 'expedition.news' AS action,
                NULL::text AS kind, CASE WHEN told IS NOT NULL THEN $14::text END AS event
         FROM kept
         UNION ALL
         SELECT id, organisation_id, ARRAY[eshop_id], NULL, booked::jsonb, version, changed_at, 1, NULL, NULL, $15::text
         FROM kept WHERE booked IS NOT NULL",
        &ids,
        &statuses as &[&str],
        &canceling as &[Option<&str>],
        &errors as &[Option<String>],
        &packed as &[Option<DateTime<Utc>>],
        &sent as &[Option<DateTime<Utc>>],
        &delivered as &[Option<DateTime<Utc>>],
        &complete as &[Option<bool>],
        &raised,
        &touched,
        &audited,
        &told as &[Option<String>],
        &booked as &[Option<String>],
    )
    .await?;
    Ok(recorded.lanes)
}

/// Remembers which reports were taken.
pub(super) async fn remember(
    connection: &mut PgConnection,
    wms: WmsId,
    taken: &[(&Row, ExpeditionId)],
) -> Result<(), sqlx::Error> {
    if taken.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = taken.iter().map(|(row, _)| row.id.as_str()).collect();
    let digests: Vec<&[u8]> = taken.iter().map(|(row, _)| row.digest.as_slice()).collect();
    let orders: Vec<Uuid> = taken.iter().map(|(_, order)| order.get()).collect();
    sqlx::query!(
        "INSERT INTO wms_news (wms_id, id, digest, expedition_id)
         SELECT $1, g.* FROM unnest($2::text[], $3::bytea[], $4::uuid[]) AS g",
        wms.get(),
        &ids as &[&str],
        &digests as &[&[u8]],
        &orders,
    )
    .execute(connection)
    .await
    .map(|_| ())
}
