//! Writing what was decided: orders, stocks, audit, events and deliveries by one statement.

pub(super) mod detail;

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, SecondsFormat};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::allocator::{Adjustment, Ledger};
use super::choice::assign;
use super::handover::{self, Step};
use super::order::{Order, State};
use super::shipper::Shipper;
use crate::list::fields::event::EXPEDITION_CHANGE;
use crate::list::fields::expedition::{ExpeditionStatus as Status, is_personal};
use crate::record::{self, FieldChange, changes_json};
use longshore_kernel::change::RecordedRows;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::queue::Hint;
use longshore_kernel::sqlstate::violated_constraint;

/// Entity type in the audit.
pub(super) const ENTITY: &str = "expedition";

/// Path of an order.
pub(super) fn location(id: ExpeditionId) -> String {
    format!("/api/expedition/{id}")
}

/// Whether a unique value is another order's.
pub(super) fn is_taken(error: &sqlx::Error) -> bool {
    matches!(
        violated_constraint(error),
        Some("order_number_is_unique_in_the_eshop" | "external_id_is_unique_in_the_eshop")
    )
}

/// An order, and the state that it gets.
#[derive(Debug)]
pub(super) struct Transition<'o> {
    pub(super) order: &'o Order,
    pub(super) state: State,
    /// Action of the audit record.
    pub(super) action: &'static str,
    /// What the audit says beside the state.
    pub(super) remark: Option<(&'static str, Value)>,
    /// Its place among the origins.
    pub(super) origin: usize,
    /// An earlier statement of the transaction has raised its version.
    pub(super) is_raised: bool,
    /// What its record says of a hand-over that it changes.
    pub(super) handover_error: Option<String>,
}

impl Transition<'_> {
    /// Whether anything is to be written.
    pub(super) fn is_change(&self) -> bool {
        self.state != self.order.state || self.changes_shipper()
    }

    fn changes_shipper(&self) -> bool {
        self.shipper() != *self.former_shipper()
    }

    fn former_shipper(&self) -> &Shipper {
        self.order.former_shipper.as_ref().unwrap_or(&self.order.shipper)
    }

    /// Who ships the order from now on. A choice is that of a sent order: one that is held has none.
    fn shipper(&self) -> Shipper {
        let shipper = &self.order.shipper;
        if self.state.status == Status::OnHold && shipper.choice.is_some() {
            return Shipper::default();
        }
        shipper.clone()
    }

    /// Whether the record shows another state since; what an order waits for, and its hand-over, do not count.
    fn raises_version(&self) -> bool {
        let without = |state: &State| State { waits_for: None, ..handover::without(state) };
        without(&self.order.state) != without(&self.state) || self.changes_shipper()
    }

    /// Whether its hand-over is another since, by a decision and not as a consequence of its status.
    fn changes_handover(&self) -> bool {
        handover::differ(&self.order.state, &self.state)
    }

    /// What changes of it, for the audit.
    fn changes(&self) -> Vec<FieldChange> {
        let (old, new) = (&self.order.state, &self.state);
        let mut changes = self.beside_status();
        let mut add = |field, old: Value, new: Value| {
            if old != new {
                changes.push(FieldChange { field, old, new });
            }
        };
        add("status", json!(old.status), json!(new.status));
        add("handover", json!(old.handover), json!(new.handover));
        add("handoverThen", json!(old.then), json!(new.then));
        if let Some((field, value)) = self.remark.clone() {
            add(field, Value::Null, value);
        }
        changes
    }

    fn beside_status(&self) -> Vec<FieldChange> {
        let (old, new) = (&self.order.state, &self.state);
        let mut changes = Vec::new();
        let mut add = |field, old: Value, new: Value| {
            if old != new {
                changes.push(FieldChange { field, old, new });
            }
        };
        add("reservationPaused", json!(old.is_paused), json!(new.is_paused));
        add("errors", json!(old.errors), json!(new.errors));
        changes.extend(self.former_shipper().becomes(&self.shipper()));
        changes
    }

    /// What its record shows in another way since, beside the status: by an edit of the same transaction, or by the transition,
    /// which comes after the edit.
    fn told(&self) -> Vec<FieldChange> {
        let mut made = self.beside_status();
        let (old, new) = (self.order.state.is_address_checked, self.state.is_address_checked);
        if old != new {
            let field = "addressValidationExecuted";
            made.push(FieldChange { field, old: json!(old), new: json!(new) });
        }
        let is_last = |edit: &&FieldChange| made.iter().all(|change| change.field != edit.field);
        let mut told: Vec<FieldChange> = self.order.edits.iter().filter(is_last).cloned().collect();
        told.append(&mut made);
        told
    }
}

/// What every event of an order says of it.
pub(super) fn identity(order: &Order, status: Status) -> [(&'static str, Value); 5] {
    [
        ("organisation", json!(order.organisation)),
        ("eshop", json!(order.eshop)),
        ("orderNumber", json!(order.order_number)),
        ("externalId", json!(order.external_id)),
        ("status", json!(status)),
    ]
}

/// `data` of `expedition_status_change`: the status, what else changed, and what it says beside that.
pub(super) fn status_event(
    order: &Order,
    previous: Option<Status>,
    state: &State,
    changes: &[FieldChange],
    further: Vec<(&'static str, Value)>,
) -> Value {
    let (others, mut fields) = changed(order, state.status, changes);
    let mut names = vec!["status".to_owned()];
    names.extend(others.into_iter().filter(|name| name != "status"));
    let mut say = |name: &'static str, value: Value| {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
        fields.insert(name.to_owned(), value);
    };
    say("status", json!(state.status));
    if state.status == Status::Incorrect {
        say("errors", json!(state.errors));
    }
    // what its items lack, where no event of its bookings says it
    let is_same = |old: Status| order.booked_items(old) == order.booked_items(state.status);
    if previous.is_some_and(|old| old.is_booked() == state.status.is_booked() && !is_same(old)) {
        say("items", order.booked_items(state.status));
    }
    // how a cancel ended that the warehouse was asked for
    if previous == Some(Status::WaitingForCancel) && state.status.place().is_some() {
        say("cancel", json!(if state.status.is_packed() { "too_late" } else { "refused" }));
    }
    for (name, value) in further {
        say(name, value);
    }
    fields.insert("previousStatus".to_owned(), json!(previous));
    data(order, state.status, &names, &fields.into())
}

/// `data` of `expedition_booked_change`.
pub(super) fn booked_event(order: &Order, status: Status) -> Value {
    data(order, status, &["items".to_owned()], &json!({"items": order.booked_items(status)}))
}

/// The value of a field that changed, as the record shows it.
fn shown(order: &Order, status: Status, change: &FieldChange) -> Value {
    match (change.field, change.new.as_str()) {
        ("items", _) => order.booked_items(status),
        ("eshopOrderDate", Some(text)) => match DateTime::parse_from_rfc3339(text) {
            Ok(at) => json!(at.to_utc().to_rfc3339_opts(SecondsFormat::Micros, false)),
            Err(_) => change.new.clone(),
        },
        _ => change.new.clone(),
    }
}

/// `data` of `expedition_change`: what changed beside the status. Of `known` it has the values of the fields that changed.
pub(super) fn change_event(
    order: &Order,
    status: Status,
    changes: &[FieldChange],
    known: Vec<(&'static str, Value)>,
) -> Value {
    let (names, mut fields) = changed(order, status, changes);
    for (name, value) in known {
        if let Some(shown) = fields.get_mut(name) {
            *shown = value;
        }
    }
    data(order, status, &names, &fields.into())
}

/// The names of the fields of the record that changed, and their values, but of what is personal. The hand-over is none of them.
fn changed(order: &Order, status: Status, changes: &[FieldChange]) -> (Vec<String>, Map<String, Value>) {
    let mut fields = Map::new();
    let mut names = Vec::with_capacity(changes.len());
    for change in changes.iter().filter(|change| change.field != "handover") {
        names.push(change.field.to_owned());
        if !is_personal(change.field) {
            fields.insert(change.field.to_owned(), shown(order, status, change));
        }
        if change.field == "items" {
            for ((name, old), (_, new)) in counts(&change.old).into_iter().zip(counts(&change.new)) {
                if old != new {
                    names.push(name.to_owned());
                    fields.insert(name.to_owned(), json!(new));
                }
            }
        }
    }
    (names, fields)
}

/// How many items, distinct products and pieces there are, as the record shows them.
fn counts(items: &Value) -> [(&'static str, i64); 3] {
    let items = items.as_array().map_or(&[][..], Vec::as_slice);
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let products: HashSet<&str> = items.iter().filter_map(|item| item["product"].as_str()).collect();
    let pieces = items.iter().filter_map(|item| item["quantity"].as_i64()).sum();
    [("countOfItems", count(items.len())), ("countOfSku", count(products.len())), ("sumOfQuantity", pieces)]
}

fn data(order: &Order, status: Status, names: &[String], fields: &Value) -> Value {
    let mut data = json!({"id": order.id, "changedFields": names, "fields": fields});
    for (name, value) in identity(order, status) {
        data[name] = value;
    }
    record::within_limit(data, &["items", "errors", "parcels"])
}

/// The columns of the stocks that change.
#[derive(Default)]
pub(super) struct StockColumns {
    pub(super) ids: Vec<Uuid>,
    pub(super) quantities: Vec<i32>,
    pub(super) held: Vec<i64>,
    pub(super) missing: Vec<i64>,
    /// Whether it shows another quantity, or another number of available pieces.
    pub(super) is_told: Vec<bool>,
    /// Whether it is marked, also where one step made it so and another gave back what the first had changed.
    pub(super) is_marked: Vec<bool>,
    /// What they were before.
    pub(super) were: Were,
}

/// Stocks as they were when it was decided.
#[derive(Default)]
pub(super) struct Were {
    pub(super) quantities: Vec<i32>,
    pub(super) held: Vec<i64>,
    pub(super) missing: Vec<i64>,
    pub(super) are_marked: Vec<bool>,
}

impl FromIterator<Adjustment> for StockColumns {
    fn from_iter<I: IntoIterator<Item = Adjustment>>(adjustments: I) -> Self {
        let mut columns = Self::default();
        for Adjustment { stock, was, is } in adjustments {
            columns.ids.push(stock.get());
            columns.quantities.push(i32::try_from(is.quantity - was.quantity).unwrap_or(i32::MAX));
            columns.held.push(is.held - was.held);
            columns.missing.push(is.missing - was.missing);
            columns.is_told.push(is.quantity != was.quantity || is.available() != was.available());
            columns.is_marked.push(is.is_marked);
            columns.were.quantities.push(i32::try_from(was.quantity).unwrap_or(i32::MAX));
            columns.were.held.push(was.held);
            columns.were.missing.push(was.missing);
            columns.were.are_marked.push(was.is_marked);
        }
        columns
    }
}

/// Runs [`record_each!`](longshore_kernel::record_each) for orders and the stocks that they changed: `ctes` write the orders, `rows`
/// are theirs in `changed`; the macro appends what belongs to the stocks. Its own parameters are `$9` to `$17`; of these, `$15` and
/// `$16` are the names of the events of an order; those of the caller start at `$18`. Nothing is written unless the first of
/// `ctes`, `verified (ok)`, says so.
///
/// `record_orders!(connection, origins, stocks, "WITH ctes", "rows", parameters from $18 …)`
macro_rules! record_orders {
    ($connection:expr, $origins:expr, $stocks:expr, $ctes:literal, $rows:literal $(, $parameter:expr)* $(,)?) => {
        longshore_kernel::record_each!(
            $connection,
            $origins,
            "expedition.create",
            $crate::expedition::write::ENTITY,
            None,
            $ctes
            + ", stocks AS (
                 UPDATE product_stock s
                 SET quantity = s.quantity + a.quantity, held = s.held + a.held, missing = s.missing + a.missing,
                     -- the trigger sees what all steps come to, and one may have marked what another made up for
                     marked_at = coalesce(s.marked_at, CASE WHEN a.is_marked THEN clock_timestamp() END),
                     -- a mark is not shown
                     version = s.version + ((a.quantity, a.held, a.missing) <> (0, 0, 0))::int
                 FROM unnest($9::uuid[], $10::int[], $11::bigint[], $12::bigint[], $13::boolean[], $14::boolean[])
                     AS a (id, quantity, held, missing, is_told, is_marked)
                 WHERE s.id = ANY (ARRAY[a.id]) AND (SELECT ok FROM verified)
                 RETURNING s.id, s.version, s.changed_at, s.organisation_id, s.product_id, s.warehouse_id, s.wms_id,
                           s.quantity, s.booked, a.quantity AS added, a.is_told
             ), stock_told AS (
                 SELECT s.id, s.organisation_id,
                        ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = s.product_id
                              UNION SELECT eshop_id FROM eshop_warehouse WHERE warehouse_id = s.warehouse_id) AS eshops,
                        ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = s.product_id) AS seen_by,
                        event_data(s.id,
                            jsonb_build_object('organisation', s.organisation_id, 'product', s.product_id,
                                'productSku', (SELECT product_sku FROM product WHERE id = s.product_id),
                                'warehouse', s.warehouse_id, 'wms', s.wms_id),
                            CASE WHEN s.added = 0 THEN '{available}'::text[] ELSE '{quantity, available}' END,
                            CASE WHEN s.added = 0 THEN jsonb_build_object('available', s.quantity - s.booked)
                                 ELSE jsonb_build_object('quantity', s.quantity, 'available', s.quantity - s.booked) END)
                            AS data,
                        s.version, s.changed_at
                 FROM stocks s WHERE s.is_told
             ), changed AS (
                SELECT orders.*, NULL::uuid[] AS seen_by FROM ("
            + $rows
            + ") AS orders
                UNION ALL
                SELECT id, organisation_id, eshops, NULL, data, version, changed_at, 1, NULL, 'product_stock', $17::text, seen_by
                FROM stock_told
             )",
            &$stocks.ids,
            &$stocks.quantities,
            &$stocks.held,
            &$stocks.missing,
            &$stocks.is_told,
            &$stocks.is_marked,
            $crate::list::fields::event::EXPEDITION_STATUS_CHANGE.name,
            $crate::list::fields::event::EXPEDITION_BOOKED_CHANGE.name,
            $crate::list::fields::event::PRODUCT_STOCK_CHANGE.name
            $(, $parameter)*
        )
    };
}

pub(super) use record_orders;

/// Writes transitions of locked orders, and the stocks that they changed. Returns the version of each order that has another
/// one since.
pub(super) async fn write(
    connection: &mut PgConnection,
    origins: &[&Origin],
    transitions: &[Transition<'_>],
    ledger: &mut Ledger,
) -> Result<(HashMap<ExpeditionId, i64>, Vec<Hint>), sqlx::Error> {
    let changed: Vec<&Transition<'_>> = transitions.iter().filter(|t| t.is_change()).collect();
    if changed.is_empty() {
        return Ok(Default::default());
    }
    let shippers: Vec<(Uuid, Shipper)> =
        changed.iter().filter(|t| t.changes_shipper()).map(|t| (t.order.id.get(), t.shipper())).collect();
    assign(connection, &shippers).await?;
    let column = |of: fn(&Transition<'_>) -> Option<Value>| -> Vec<Option<String>> {
        changed.iter().map(|t| of(t).map(|value| value.to_string())).collect()
    };
    let ids: Vec<Uuid> = changed.iter().map(|t| t.order.id.get()).collect();
    let statuses: Vec<&str> = changed.iter().map(|t| t.state.status.as_str()).collect();
    let paused: Vec<bool> = changed.iter().map(|t| t.state.is_paused).collect();
    let waits_for: Vec<Option<Uuid>> =
        changed.iter().map(|t| t.state.waits_for.map(|l| l.stock.get())).collect();
    let waits_quantity: Vec<Option<i64>> =
        changed.iter().map(|t| t.state.waits_for.map(|l| l.quantity)).collect();
    let errors = column(|t| t.state.errors.clone());
    let canceling: Vec<Option<&str>> =
        changed.iter().map(|t| t.state.canceling_from.map(Status::as_str)).collect();
    let checked: Vec<bool> = changed.iter().map(|t| t.state.is_address_checked).collect();
    let actions: Vec<&str> = changed.iter().map(|t| t.action).collect();
    let raised: Vec<bool> = changed.iter().map(|t| t.is_raised).collect();
    let silent: Vec<bool> = changed.iter().map(|t| !t.raises_version()).collect();
    let places: Vec<i64> = changed.iter().map(|t| i64::try_from(t.origin + 1).unwrap_or(1)).collect();
    // without: what it waits for is all that changes, which does not change the version of the record
    let is_audited = |t: &Transition<'_>| t.raises_version() || t.changes_handover();
    let changes: Vec<Option<String>> =
        changed.iter().map(|t| is_audited(t).then(|| changes_json(&t.changes()).to_string())).collect();
    let data = column(|t| {
        let (old, new) = (t.order.state.status, t.state.status);
        if old != new {
            return Some(status_event(t.order, Some(old), &t.state, &t.told(), Vec::new()));
        }
        let told = t.told();
        (!told.is_empty()).then(|| change_event(t.order, new, &told, Vec::new()))
    });
    // null: its status
    let events: Vec<Option<&str>> = changed
        .iter()
        .map(|t| (t.order.state.status == t.state.status).then_some(EXPEDITION_CHANGE.name))
        .collect();
    let booked = column(|t| {
        let (old, new) = (t.order.state.status, t.state.status);
        (old.is_booked() != new.is_booked()).then(|| booked_event(t.order, new))
    });
    let stocks: StockColumns = ledger.settle().into_iter().collect();
    // first: a status that gives an order back follows from it
    let handovers: Vec<Step> = changed.iter().filter(|t| t.changes_handover()).map(|t| Step::of(t)).collect();
    handover::write(connection, &handovers).await?;
    let recorded: RecordedRows = record_orders!(
        connection,
        origins,
        stocks,
        "WITH verified AS (SELECT true AS ok), given AS MATERIALIZED (
             SELECT * FROM unnest($18::uuid[], $19::text[], $20::boolean[], $21::uuid[], $22::bigint[], $23::text[],
                                  $24::boolean[], $25::text[], $26::bigint[], $27::text[], $28::text[], $29::text[], $30::boolean[],
                                  $31::text[], $32::boolean[], $33::text[])
             AS g (id, status, paused, waits_for, waits_quantity, errors, checked, action, origin, changes, event_data, booked, raised,
                   event, silent, canceling)
         ), written AS (
             UPDATE expedition e
             SET status = g.status, reservation_paused = g.paused, waits_for_id = g.waits_for,
                 waits_quantity = g.waits_quantity, errors = g.errors::jsonb, address_validation_executed = g.checked,
                 canceling_from = g.canceling, version = e.version + (g.changes IS NOT NULL AND NOT g.raised AND NOT g.silent)::int
             FROM given g WHERE e.id = ANY (ARRAY[g.id])
             RETURNING e.id, e.version, CASE WHEN g.silent THEN clock_timestamp() ELSE e.changed_at END AS changed_at,
                       e.organisation_id, e.eshop_id, g.action, g.origin, g.changes, g.event_data, g.booked, g.event
         )",
        "SELECT id AS entity, organisation_id AS organisation, ARRAY[eshop_id] AS eshops, changes::jsonb AS changes,
                event_data::jsonb AS data, version, changed_at AS at, origin, action, NULL::text AS kind,
                CASE WHEN event_data IS NOT NULL THEN coalesce(event, $15::text) END AS event
         FROM written WHERE changes IS NOT NULL
         UNION ALL
         SELECT id, organisation_id, ARRAY[eshop_id], NULL, booked::jsonb, version, changed_at, origin, action, NULL, $16::text::text
         FROM written WHERE booked IS NOT NULL",
        &ids,
        &statuses as &[&str],
        &paused,
        &waits_for as &[Option<Uuid>],
        &waits_quantity as &[Option<i64>],
        &errors as &[Option<String>],
        &checked,
        &actions as &[&str],
        &places,
        &changes as &[Option<String>],
        &data as &[Option<String>],
        &booked as &[Option<String>],
        &raised,
        &events as &[Option<&str>],
        &silent,
        &canceling as &[Option<&str>],
    )
    .await?;
    let versions = recorded.entities.into_iter().map(ExpeditionId::from).zip(recorded.versions).collect();
    Ok((versions, recorded.lanes))
}
