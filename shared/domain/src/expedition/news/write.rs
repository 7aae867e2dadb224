//! Writes what reports made of orders: a few statements for all of them.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::fold::Fold;
use super::goods::Movements;
use super::parcels;
use super::row::Row;
use super::subject::Left;
use crate::expedition::allocator::Ledger;
use crate::expedition::handover::{self, Step};
use crate::expedition::order::Doubt;
use crate::expedition::write::{StockColumns, booked_event, change_event, record_orders, status_event};
use crate::list::fields::event::EXPEDITION_CHANGE;
use crate::list::fields::expedition::ExpeditionStatus as Status;
use crate::record::{FieldChange, changes_json};
use longshore_kernel::change::RecordedRows;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{ExpeditionId, ExpeditionItemId, WmsId};
use longshore_kernel::queue::Hint;

/// Writes everything; returns the webhooks that have something due.
pub(super) async fn write(
    connection: &mut PgConnection,
    origin: &Origin,
    folds: &[Fold<'_>],
    ledger: &mut Ledger,
) -> Result<Vec<Hint>, sqlx::Error> {
    let movements = Movements::of(folds, ledger);
    movements.write(connection, origin, folds).await?;
    parcels::write(connection, folds).await?;
    parcels::write_tracking(connection, folds).await?;
    write_handovers(connection, folds).await?;
    write_strays(connection, folds).await?;
    let tracking = parcels::tracking(connection, folds).await?;
    write_orders(connection, origin, folds, ledger, tracking).await
}

/// Writes what the reports say of hand-overs, before the statuses: what follows from those is left to the database
/// (`expedition_handover_follows`). A call may still be under way whose order the warehouse has reported of: the next one waits for
/// its end.
async fn write_handovers(connection: &mut PgConnection, folds: &[Fold<'_>]) -> Result<(), sqlx::Error> {
    let named = || folds.iter().filter(|fold| fold.known.internal_id != fold.had.internal_id);
    if named().next().is_some() {
        let ids: Vec<Uuid> = named().map(|fold| fold.order.id.get()).collect();
        let internal: Vec<Option<&str>> = named().map(|fold| fold.known.internal_id.as_deref()).collect();
        sqlx::query!(
            "UPDATE expedition_handover h SET wms_internal_id = g.internal
             FROM unnest($1::uuid[], $2::text[]) AS g (id, internal) WHERE h.id = ANY (ARRAY[g.id])",
            &ids,
            &internal as &[Option<&str>],
        )
        .execute(&mut *connection)
        .await?;
    }
    let step = |fold: &Fold<'_>| Step::by_hand(fold.order, &fold.state, fold.known.handover_error);
    handover::write(connection, &folds.iter().filter_map(step).collect::<Vec<_>>()).await
}

async fn write_strays(connection: &mut PgConnection, folds: &[Fold<'_>]) -> Result<(), sqlx::Error> {
    let (mut orders, mut numbers, mut wms, mut news) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut lost, mut left) = (Vec::new(), Vec::new());
    for fold in folds {
        for stray in &fold.strays {
            orders.push(fold.order.id.get());
            numbers.push(stray.number);
            wms.push(fold.order.place.wms.get());
            news.push(stray.news.as_str());
            lost.push(stray.is_lost);
            left.push(stray.gone.is_some());
        }
    }
    if orders.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "INSERT INTO wms_contradiction AS c (expedition_id, number, wms_id, news_id, is_lost, has_left)
         SELECT DISTINCT ON (expedition, number) *
         FROM unnest($1::uuid[], $2::int[], $3::uuid[], $4::text[], $5::boolean[], $6::boolean[])
             AS g (expedition, number, wms, news, is_lost, has_left)
         ORDER BY expedition, number, has_left DESC
         ON CONFLICT (expedition_id, number) DO UPDATE SET news_id = excluded.news_id, at = excluded.at, has_left = true
         WHERE excluded.has_left AND NOT c.has_left",
        &orders,
        &numbers,
        &wms,
        &news as &[&str],
        &lost,
        &left,
    )
    .execute(connection)
    .await
    .map(|_| ())
}

/// What changed of a record.
fn changes(fold: &Fold<'_>) -> Vec<FieldChange> {
    let (old, state, had, known) = (&fold.order.state, &fold.state, &fold.had, &fold.known);
    let mut changes = Vec::new();
    let mut add = |field, old: Value, new: Value| {
        if old != new {
            changes.push(FieldChange { field, old, new });
        }
    };
    let detail = |item: ExpeditionItemId, left: Option<&Left>| {
        let serials = left.map_or(&[][..], |left| &left.serials);
        json!({"id": item, "assignedLot": left.and_then(Left::lot), "serialNumbers": serials})
    };
    let was = fold.detailed.iter().map(|gone| detail(gone.item, fold.left_before(gone.item)));
    let is = fold.detailed.iter().map(|gone| detail(gone.item, Some(&gone.left)));
    add("items", was.collect(), is.collect());
    add("status", json!(old.status), json!(state.status));
    add("errors", json!(old.errors), json!(state.errors));
    for ((field, old), (_, new)) in had.times.shown().into_iter().zip(known.times.shown()) {
        add(field, old, new);
    }
    let numbers: Vec<_> = parcels::new_parcels(fold).map(|parcel| &parcel.number).collect();
    if !numbers.is_empty() {
        add("parcels", Value::Null, json!(numbers));
    }
    add("trackingNumber", json!(had.tracking.number), json!(known.tracking.number));
    add("trackingUrl", json!(had.tracking.url), json!(known.tracking.url));
    changes
}

/// What the audit says of reports: what changed, and what each of them said.
fn audited(fold: &Fold<'_>) -> Value {
    let (old, state, had, known) = (&fold.order.state, &fold.state, &fold.had, &fold.known);
    let mut changes = changes(fold);
    let mut add = |field, old: Value, new: Value| {
        if old != new {
            changes.push(FieldChange { field, old, new });
        }
    };
    add("handover", json!(old.handover), json!(state.handover));
    add("wmsInternalId", json!(had.internal_id), json!(known.internal_id));
    add("contentsUnknown", json!(old.doubt == Doubt::Contents), json!(state.doubt == Doubt::Contents));
    add("cancel", Value::Null, json!(fold.cancel));
    let strays: BTreeSet<_> = fold.strays.iter().map(|stray| stray.number).collect();
    if !strays.is_empty() {
        add("contradiction", Value::Null, json!(strays));
    }
    add("news", Value::Null, json!(fold.kept));
    changes_json(&changes)
}

/// The columns of orders that reports set.
struct Columns<'f> {
    ids: Vec<Uuid>,
    statuses: Vec<&'f str>,
    canceling: Vec<Option<&'f str>>,
    errors: Vec<Option<String>>,
    packed: Vec<Option<DateTime<Utc>>>,
    sent: Vec<Option<DateTime<Utc>>>,
    delivered: Vec<Option<DateTime<Utc>>>,
}

impl<'f> Columns<'f> {
    fn of(folds: &'f [Fold<'_>]) -> Self {
        Self {
            ids: folds.iter().map(|fold| fold.order.id.get()).collect(),
            statuses: folds.iter().map(|fold| fold.state.status.as_str()).collect(),
            canceling: folds.iter().map(|fold| fold.state.canceling_from.map(Status::as_str)).collect(),
            errors: folds.iter().map(|fold| fold.state.errors.as_ref().map(Value::to_string)).collect(),
            packed: folds.iter().map(|fold| fold.known.times.packed).collect(),
            sent: folds.iter().map(|fold| fold.known.times.sent).collect(),
            delivered: folds.iter().map(|fold| fold.known.times.delivered).collect(),
        }
    }
}

/// `data` of the event of an order: of its status, or of what else changed.
fn event(fold: &Fold<'_>, tracking: &mut HashMap<Uuid, Vec<(&'static str, Value)>>) -> Option<String> {
    let (old, new) = (fold.order.state.status, fold.state.status);
    let mut further = tracking.remove(&fold.order.id.get()).unwrap_or_default();
    let changes = changes(fold);
    if !fold.detailed.is_empty() {
        let [items, _] = fold.order.packed(fold.packed_before());
        further.push(items);
    }
    if old != new {
        further.extend(fold.cancel.map(|cancel| ("cancel", json!(cancel))));
        further.extend(fold.left().into_iter().flat_map(|left| fold.order.packed(left)));
        return Some(status_event(fold.order, Some(old), &fold.state, &changes, further).to_string());
    }
    fold.is_change().then(|| change_event(fold.order, new, &changes, further).to_string())
}

/// Writes the orders and the stocks, with audit and events. Reports that change nothing of a record leave its version.
async fn write_orders(
    connection: &mut PgConnection,
    origin: &Origin,
    folds: &[Fold<'_>],
    ledger: &mut Ledger,
    mut tracking: HashMap<Uuid, Vec<(&'static str, Value)>>,
) -> Result<Vec<Hint>, sqlx::Error> {
    let stocks: StockColumns = ledger.settle().into_iter().collect();
    let Columns { ids, statuses, canceling, errors, packed, sent, delivered } = Columns::of(folds);
    let complete: Vec<Option<bool>> = folds.iter().map(Fold::is_complete).collect();
    let raised: Vec<bool> = folds.iter().map(Fold::is_change).collect();
    let is_touched = |fold: &Fold<'_>| fold.state.canceling_from != fold.order.state.canceling_from;
    let touched: Vec<bool> = folds.iter().map(|fold| fold.is_change() || is_touched(fold)).collect();
    let changes: Vec<String> = folds.iter().map(|fold| audited(fold).to_string()).collect();
    let data: Vec<Option<String>> = folds.iter().map(|fold| event(fold, &mut tracking)).collect();
    // null: that of the status
    let events: Vec<Option<&str>> = folds
        .iter()
        .map(|fold| (fold.order.state.status == fold.state.status).then_some(EXPEDITION_CHANGE.name))
        .collect();
    let gives_back = |fold: &Fold<'_>| fold.gives_back().then(|| booked_event(fold.order, fold.state.status));
    let booked: Vec<Option<String>> =
        folds.iter().map(|fold| gives_back(fold).map(|data| data.to_string())).collect();
    let recorded: RecordedRows = record_orders!(
        connection,
        &[origin],
        stocks,
        "WITH verified AS (SELECT true AS ok), given AS MATERIALIZED (
             SELECT * FROM unnest($18::uuid[], $19::text[], $20::text[], $21::text[], $22::timestamptz[], $23::timestamptz[],
                                  $24::timestamptz[], $25::boolean[], $26::boolean[], $27::boolean[], $28::text[], $29::text[],
                                  $30::text[], $31::text[])
             AS g (id, status, canceling, errors, packed, sent, delivered, complete, raised, touched, changes, event_data, booked,
                   event)
         ), written AS (
             UPDATE expedition e
             SET status = g.status, canceling_from = g.canceling, errors = g.errors::jsonb, packed_at = g.packed,
                 sent_at = g.sent, delivered_at = g.delivered,
                 -- what an order in doubt waited for that is given back
                 waits_for_id = CASE WHEN is_waiting(g.status) THEN e.waits_for_id END,
                 waits_quantity = CASE WHEN is_waiting(g.status) THEN e.waits_quantity END,
                 reservation_paused = e.reservation_paused AND is_waiting(g.status),
                 expedited_completely = coalesce(g.complete, e.expedited_completely), version = e.version + g.raised::int
             FROM given g WHERE e.id = ANY (ARRAY[g.id]) AND g.touched
             RETURNING e.id, e.version, CASE WHEN g.raised THEN e.changed_at ELSE clock_timestamp() END AS changed_at,
                       e.organisation_id, e.eshop_id, g.changes, g.event_data, g.booked, g.event
         ), kept AS (
             SELECT * FROM written
             UNION ALL
             SELECT e.id, e.version, clock_timestamp(), e.organisation_id, e.eshop_id, g.changes, NULL, NULL, NULL
             FROM given g JOIN expedition e ON e.id = ANY (ARRAY[g.id]) WHERE NOT g.touched
         )",
        "SELECT id AS entity, organisation_id AS organisation, ARRAY[eshop_id] AS eshops, changes::jsonb AS changes,
                event_data::jsonb AS data, version, changed_at AS at, 1::bigint AS origin, 'expedition.news' AS action,
                NULL::text AS kind, CASE WHEN event_data IS NOT NULL THEN coalesce(event, $15::text) END AS event
         FROM kept
         UNION ALL
         SELECT id, organisation_id, ARRAY[eshop_id], NULL, booked::jsonb, version, changed_at, 1, NULL, NULL, $16::text
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
        &changes,
        &data as &[Option<String>],
        &booked as &[Option<String>],
        &events as &[Option<&str>],
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
