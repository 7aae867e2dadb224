//! What the warehouse says of an order, told by hand (`docs/reference/orders.md#status-by-hand`): it goes along the line from
//! `awaiting_processing` to `delivered`, or turns out to be incorrect. Packing moves its pieces out of the stock.

use chrono::{DateTime, Duration, Utc};
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::allocator::{Demand, Ledger};
use super::command::location;
use super::decision::wrong_status;
use super::handover;
use super::order::{self, Order, State};
use super::stocks;
use super::write::{ENTITY, StockColumns, booked_event, change_event, record_orders, status_event};
use crate::list;
use crate::list::fields::event::EXPEDITION_CHANGE;
use crate::list::fields::expedition::{EXPEDITION, ExpeditionStatus as Status, HandoverState};
use crate::record::{FieldChange, changes_json};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, RecordedRows};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::{ExpeditionId, ExpeditionItemId, StockId};
use longshore_kernel::input::{self, Object, Reader, Rule, array, int32, object, text};
use longshore_kernel::problem::{Problem, Violation};
use longshore_kernel::queue::Hint;
use longshore_kernel::refused::Parameters;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// How far ahead of the clock a moment may be.
pub(super) const AHEAD: Duration = Duration::minutes(5);
/// Errors that the warehouse may name, and parcels that it may tell.
pub const MOST: usize = 100;

/// What is told.
#[derive(Clone, Debug, Default)]
struct News {
    status: Option<Status>,
    at: Option<DateTime<Utc>>,
    items: Option<Vec<(ExpeditionItemId, i32)>>,
    parcels: Vec<Parcel>,
    errors: Option<Value>,
    /// Whether the warehouse gives back what it was asked for.
    cancel: Option<bool>,
    /// Although the system of the warehouse reports.
    force: bool,
}

/// A parcel: a field that is given wins over what was told before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    pub(super) number: String,
    pub(super) package_tracking_number: Option<String>,
    pub(super) carrier_tracking_number: Option<String>,
    pub(super) tracking_url: Option<String>,
}

impl Parcel {
    /// Takes what is said of it later.
    pub(super) fn take(&mut self, later: Self) {
        self.package_tracking_number = later.package_tracking_number.or(self.package_tracking_number.take());
        self.carrier_tracking_number = later.carrier_tracking_number.or(self.carrier_tracking_number.take());
        self.tracking_url = later.tracking_url.or(self.tracking_url.take());
    }
}

/// Takes what the warehouse says: 200 with the record.
pub async fn report(
    services: &Services,
    context: &Context,
    id: ExpeditionId,
    body: Value,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let now = services.clock.now();
    let news = read(body, now)?;
    let mut change = Change::begin(services).await?;
    let scope = context.scope();
    let Some(order) = order::lock(change.connection(), scope, &[id]).await?.pop() else {
        return Err(tombstone::missing(change.connection(), scope, ENTITY, id.get()).await);
    };
    check(order.version)?;
    if !news.force && is_reported(change.connection(), &order).await? {
        let first = "the system of its warehouse reports on it; with `force` it is moved by hand";
        return Err(wrong_status(order.state.status, first));
    }
    let times = times(change.connection(), id.get()).await?;
    let told = Told::read(change.connection(), id.get(), &news).await?;
    let locked = stocks::lock(change.connection(), std::slice::from_ref(&order)).await?;
    let mut step = decide(&order, &news, now, times, &told, locked.ledger)?;
    if step.is_change(&order) {
        let lanes = write(change.connection(), &context.origin, &order, &mut step).await?;
        change.note_lanes(lanes);
    }
    let record = list::find(change.connection(), &EXPEDITION, scope, id.get()).await?;
    let record = record.ok_or_else(|| Problem::not_found(ENTITY))?;
    let answer = Answer::updated(location(id), record.version, record.json);
    change.answer(context.claim, answer).await
}

/// Whether the system of its warehouse reports on an order.
async fn is_reported(connection: &mut PgConnection, order: &Order) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM wms_setting WHERE wms_id = $1 AND active) AS "is!""#,
        order.place.wms.get(),
    )
    .fetch_one(connection)
    .await
}

fn read(body: Value, now: DateTime<Utc>) -> Result<News, Problem> {
    let (news, violations) = {
        let mut reader = Reader::default();
        let mut news = None;
        if let Some(mut object) = reader.object(body) {
            news = members(&mut object);
            if news.as_ref().is_some_and(|news| news.at.is_some_and(|at| at > now + AHEAD)) {
                object.refuse("at", "in_future", "must be at most five minutes ahead");
            }
            object.finish();
        }
        (news, reader.into_violations())
    };
    news.filter(|_| violations.is_empty()).ok_or_else(|| Problem::invalid(violations))
}

/// Whether the body of `PUT …/status` can be read at that moment.
pub fn check(body: Value, now: DateTime<Utc>) -> Result<(), Problem> {
    read(body, now).map(|_| ())
}

/// The body of `PUT …/status`.
pub fn body() -> impl Rule {
    object(members)
}

fn members(object: &mut Object<'_>) -> Option<News> {
    let answers = object.has("cancel");
    let cancel = object.optional("cancel", input::one_of(CANCEL)).map(|cancel| cancel == CANCEL[0]);
    let force = object.optional_or("force", input::boolean(), false);
    let status = object.required_if(!answers, "status", input::one_of(TOLD));
    let status = status.and_then(|status| status.parse::<Status>().ok());
    if answers && status.is_some() {
        object.refuse("cancel", "contradiction", "is allowed without a status only");
    }
    if status == Some(Status::Canceled) && !force {
        object.refuse("status", "contradiction", "is allowed with `force` only");
    }
    let at = object.nullable("at", input::timestamp()).value();
    let items = object.optional("items", array(1..=super::body::MAX_ITEMS, input::object(item)));
    let parcels = object.optional("parcels", array(1..=MOST, input::object(parcel))).unwrap_or_default();
    let gives_errors = object.has("errors");
    let errors = object.optional("errors", array(1..=MOST, input::object(error)));
    match (status, gives_errors) {
        (Some(Status::Incorrect), false) => {
            object.refuse("errors", "required", "is required with the status incorrect");
        }
        (Some(status), true) if status != Status::Incorrect => {
            object.refuse("errors", "not_allowed", "is allowed with the status incorrect only");
        }
        _ => {}
    }
    if items.is_some() && status.is_some_and(|status| !status.is_packed()) {
        object.refuse("items", "not_allowed", "is allowed from the status waiting_for_the_carrier on");
    }
    let status = if cancel.is_some() { None } else { Some(status?) };
    Some(News { status, at, items, parcels, errors: errors.map(Value::Array), cancel, force })
}

/// What a warehouse can answer that was asked for an order.
const CANCEL: &[&str] = &["accepted", "refused"];

/// What the warehouse can say.
const TOLD: &[&str] = &[
    "take_out",
    "completion",
    "waiting_for_the_carrier",
    "carrier_picked_up",
    "ready_to_takeover",
    "delivered",
    "incorrect",
    "canceled",
];

fn item(item: &mut Object<'_>) -> Option<(ExpeditionItemId, i32)> {
    let id = item.required("id", input::id());
    let expedited = item.required("expedited", int32(0..=super::body::MAX_QUANTITY));
    Some((id?.into(), expedited?))
}

pub(super) fn parcel(parcel: &mut Object<'_>) -> Option<Parcel> {
    parcel.take_others(|name| matches!(name, "createdAt" | "changedAt"));
    let number = parcel.required("extPackageNumber", text(1..=255));
    let package_tracking_number = parcel.nullable("extPackageTrackingNumber", text(0..=255)).value();
    let carrier_tracking_number = parcel.nullable("extCarrierTrackingNumber", text(0..=255)).value();
    let tracking_url = parcel.nullable("trackingUrl", text(0..=2_000)).value();
    Some(Parcel { number: number?, package_tracking_number, carrier_tracking_number, tracking_url })
}

pub(super) fn error(error: &mut Object<'_>) -> Option<Value> {
    let path = error.nullable("propertyPath", text(0..=255)).value();
    let message = error.required("message", text(1..=1_000));
    let code = error.nullable("code", text(0..=100)).value();
    Some(json!({"propertyPath": path.unwrap_or_default(), "message": message?,
                "code": code.unwrap_or_else(|| "refused_by_warehouse".to_owned()),
                "parameters": Parameters { value: String::new(), id: None }}))
}

/// When an order was packed, sent and delivered, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) packed: Option<DateTime<Utc>>,
    pub(super) sent: Option<DateTime<Utc>>,
    pub(super) delivered: Option<DateTime<Utc>>,
}

impl Times {
    /// A status of the line was reached at a moment: so were those before it, at the latest.
    pub(super) fn reach(self, status: Status, at: DateTime<Utc>) -> Self {
        let earliest = |known: Option<DateTime<Utc>>, from: Status| match known {
            Some(known) if status >= from => Some(known.min(at)),
            None if status >= from => Some(at),
            known => known,
        };
        Self {
            packed: earliest(self.packed, Status::WaitingForTheCarrier),
            sent: earliest(self.sent, Status::CarrierPickedUp),
            delivered: earliest(self.delivered, Status::Delivered),
        }
    }
}

async fn left(connection: &mut PgConnection, id: Uuid) -> Result<Vec<Left>, sqlx::Error> {
    sqlx::query_as!(
        Left,
        r#"SELECT id, expedited AS "expedited!" FROM expedition_item WHERE expedition_id = $1 AND expedited IS NOT NULL"#,
        id,
    )
    .fetch_all(connection)
    .await
}

async fn times(connection: &mut PgConnection, id: Uuid) -> Result<Times, sqlx::Error> {
    sqlx::query_as!(
        Times,
        "SELECT packed_at AS packed, sent_at AS sent, delivered_at AS delivered FROM expedition WHERE id = $1",
        id,
    )
    .fetch_one(connection)
    .await
}

/// Where an order can be tracked, and its parcels, as they were told before.
#[derive(Clone, Debug, Default)]
struct Told {
    tracking_number: Option<String>,
    tracking_url: Option<String>,
    /// Those of the parcels that are told again.
    parcels: Vec<Parcel>,
    /// What left of the items, if they are told again.
    left: Vec<Left>,
}

/// What left of an item of an order that is packed.
#[derive(Clone, Debug)]
struct Left {
    id: ExpeditionItemId,
    expedited: i32,
}

impl Told {
    async fn read(connection: &mut PgConnection, id: Uuid, news: &News) -> Result<Self, sqlx::Error> {
        let left = match news.items {
            Some(_) => left(connection, id).await?,
            None => Vec::new(),
        };
        if news.parcels.is_empty() {
            return Ok(Self { left, ..Self::default() });
        }
        let numbers: Vec<&str> = news.parcels.iter().map(|parcel| parcel.number.as_str()).collect();
        let known = sqlx::query_as!(
            Parcel,
            "SELECT ext_package_number AS number, ext_package_tracking_number AS package_tracking_number,
                    ext_carrier_tracking_number AS carrier_tracking_number, tracking_url
             FROM expedition_parcel WHERE expedition_id = $1 AND ext_package_number = ANY($2)",
            id,
            &numbers as &[&str],
        )
        .fetch_all(&mut *connection)
        .await?;
        let detail =
            sqlx::query!("SELECT tracking_number, tracking_url FROM expedition_detail WHERE id = $1", id)
                .fetch_one(connection)
                .await?;
        let (tracking_number, tracking_url) = (detail.tracking_number, detail.tracking_url);
        Ok(Self { tracking_number, tracking_url, parcels: known, left })
    }

    /// Those of parcels that say something new, each number once and in full.
    fn news(&self, parcels: &[Parcel]) -> Vec<Parcel> {
        let merged = merged(&[&self.parcels, parcels].map(<[Parcel]>::to_vec).concat());
        let is_told = |parcel: &Parcel| parcels.iter().any(|told| told.number == parcel.number);
        merged.into_iter().filter(|parcel| is_told(parcel) && !self.parcels.contains(parcel)).collect()
    }
}

/// What news make of an order.
struct Step {
    state: State,
    times: Times,
    had: Times,
    /// Parcels that are new, or are known in another way since.
    parcels: Vec<Parcel>,
    /// What the first parcel gives an order that did not say it.
    tracking_number: Option<String>,
    tracking_url: Option<String>,
    ledger: Ledger,
    /// What left of each item, with its stock; present where it is packed now.
    left: Option<Vec<(ExpeditionItemId, StockId, i32)>>,
    /// Pieces of stocks that had more than was known.
    found: Vec<(StockId, i64)>,
}

impl Step {
    /// Another state, and nothing else.
    fn of(state: State, had: Times, ledger: Ledger) -> Self {
        Self {
            state,
            times: had,
            had,
            parcels: Vec::new(),
            tracking_number: None,
            tracking_url: None,
            ledger,
            left: None,
            found: Vec::new(),
        }
    }

    /// Whether anything is to be written.
    fn is_change(&self, order: &Order) -> bool {
        self.state != order.state || self.is_shown(order)
    }

    /// Whether the record shows another state since: not what a cancel would go back to, and not the hand-over.
    fn is_shown(&self, order: &Order) -> bool {
        let shown = |state: &State| State { canceling_from: None, handover: None, ..state.clone() };
        shown(&self.state) != shown(&order.state)
            || self.times != self.had
            || !self.parcels.is_empty()
            || self.tracking_number.is_some()
            || self.tracking_url.is_some()
    }

    /// Whether everything that was ordered has left.
    fn is_complete(&self, order: &Order) -> Option<bool> {
        let left = self.left.as_ref()?;
        Some(
            order
                .items
                .iter()
                .all(|item| left.iter().any(|(id, _, n)| *id == item.id && *n == item.quantity)),
        )
    }
}

fn decide(
    order: &Order,
    news: &News,
    now: DateTime<Utc>,
    had: Times,
    told: &Told,
    mut ledger: Ledger,
) -> Result<Step, Problem> {
    if let Some(state) = answer(order, news)? {
        if order.state.status.is_booked() && !state.status.is_booked() {
            ledger.release(&order.demand());
        }
        return Ok(Step::of(state, had, ledger));
    }
    let (old, new) = (order.state.status, news.status.unwrap_or(order.state.status));
    let mut state = State { status: new, canceling_from: None, ..order.state.clone() };
    let (mut left, mut found, mut times) = (None, Vec::new(), had);
    // while a cancel waits, the status counts that it would go back to
    let from = order.state.canceling_from.unwrap_or(old);
    match (from.place(), new.place()) {
        // the same again changes no status
        (Some(from), Some(to)) if to >= from => {
            if order.state.canceling_from.is_some() && !new.is_packed() {
                (state.status, state.canceling_from) = (old, Some(new));
            }
            if to > from || old.is_packed() {
                times = had.reach(new, news.at.unwrap_or(now));
            }
            let leaves = leaving(order, news)?;
            contradict_nothing(news, &told.left, &leaves)?;
            if new.is_packed() && !old.is_packed() {
                let demand = Demand::new(leaves.iter().map(|(_, stock, n)| (*stock, i64::from(*n))));
                found = ledger.pack(&order.demand(), &demand);
                left = Some(leaves);
            }
        }
        (Some(_), Some(_)) => return Err(wrong_status(old, &format!("it does not go back to {new}"))),
        (Some(_), None) if !old.is_packed() => {
            ledger.release(&order.demand());
            state.errors.clone_from(&news.errors);
        }
        (None, None) if old == Status::Incorrect => state.errors.clone_from(&news.errors),
        _ => {
            return Err(wrong_status(
                old,
                "the warehouse can report what is awaiting_processing, or further",
            ));
        }
    }
    let parcels = told.news(&news.parcels);
    let first = news.parcels.first();
    let tracking_number =
        first.filter(|_| told.tracking_number.is_none()).and_then(|p| p.package_tracking_number.clone());
    let tracking_url = first.filter(|_| told.tracking_url.is_none()).and_then(|p| p.tracking_url.clone());
    Ok(Step { state, times, had, parcels, tracking_number, tracking_url, ledger, left, found })
}

/// What an order becomes whose warehouse answers, by hand, what it was asked for; nothing where it reports something else.
fn answer(order: &Order, news: &News) -> Result<Option<State>, Problem> {
    let status = order.state.status;
    match (news.cancel, news.status) {
        (Some(gives_back), _) if handover::is_asked_for(order) => {
            Ok(Some(if gives_back { handover::given_back(order) } else { handover::kept(order) }))
        }
        (Some(_), _) => Err(wrong_status(status, "its warehouse was not asked for it")),
        (None, Some(Status::Canceled)) if status == Status::WaitingForCancel => {
            Ok(Some(handover::given_back(order)))
        }
        (None, Some(Status::Canceled)) => Err(wrong_status(status, "cancel it first")),
        _ => Ok(None),
    }
}

/// What leaves of each item: what is told, added up; without it, all that was ordered.
fn leaving(order: &Order, news: &News) -> Result<Vec<(ExpeditionItemId, StockId, i32)>, Problem> {
    let mut violations = Vec::new();
    let told = news.items.as_deref();
    for (index, (id, _)) in told.iter().flat_map(|told| told.iter()).enumerate() {
        if !order.items.iter().any(|item| item.id == *id) {
            let path = format!("items[{index}].id");
            violations.push(Violation::new(path, "unknown_reference", "must be an item of the expedition"));
        }
    }
    let mut left = Vec::with_capacity(order.items.len());
    for item in &order.items {
        let Some(stock) = item.stock else { continue };
        let Some(told) = told else {
            left.push((item.id, stock, item.quantity));
            continue;
        };
        let sum: i64 = told.iter().filter(|(id, _)| *id == item.id).map(|(_, n)| i64::from(*n)).sum();
        if let Some(sum) = i32::try_from(sum).ok().filter(|sum| *sum <= item.quantity) {
            left.push((item.id, stock, sum));
        } else {
            let index = told.iter().position(|(id, _)| *id == item.id).unwrap_or_default();
            let message = format!("must come to at most {}, as was ordered", item.quantity);
            violations.push(Violation::new(format!("items[{index}].expedited"), "too_many", message));
        }
    }
    if violations.is_empty() { Ok(left) } else { Err(Problem::invalid(violations)) }
}

/// Checks that a report on an order that is packed says of no item that another quantity left.
fn contradict_nothing(
    news: &News,
    left: &[Left],
    leaves: &[(ExpeditionItemId, StockId, i32)],
) -> Result<(), Problem> {
    let Some(told) = news.items.as_deref() else { return Ok(()) };
    let differs = |item: &Left| leaves.iter().any(|(id, _, n)| *id == item.id && *n != item.expedited);
    let violations: Vec<_> = left
        .iter()
        .filter(|item| differs(item))
        .map(|item| {
            let index = told.iter().position(|(id, _)| *id == item.id);
            let path = index.map_or_else(|| "items".to_owned(), |index| format!("items[{index}].expedited"));
            let message = format!(
                "must say that {} of item {} left, as was reported when the order was packed",
                item.expedited,
                item.id.get()
            );
            Violation::new(path, "contradiction", message)
        })
        .collect();
    if violations.is_empty() { Ok(()) } else { Err(Problem::invalid(violations)) }
}

async fn write(
    connection: &mut PgConnection,
    origin: &Origin,
    order: &Order,
    step: &mut Step,
) -> Result<Vec<Hint>, sqlx::Error> {
    let stocks: StockColumns = step.ledger.settle().into_iter().collect();
    let (old, state) = (&order.state, &step.state);
    // first: a status that takes an order back follows from it
    let is_kept = old.handover != state.handover && state.handover.is_some_and(HandoverState::is_handed_over);
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
    add("packedAt", json!(step.had.packed), json!(step.times.packed));
    add("sentAt", json!(step.had.sent), json!(step.times.sent));
    add("deliveredAt", json!(step.had.delivered), json!(step.times.delivered));
    if !step.parcels.is_empty() {
        let numbers: Vec<_> = step.parcels.iter().map(|parcel| &parcel.number).collect();
        add("parcels", Value::Null, json!(numbers));
    }
    add("trackingNumber", Value::Null, json!(step.tracking_number));
    add("trackingUrl", Value::Null, json!(step.tracking_url));
    let (event, told) = if old.status == state.status {
        let known = |change: &FieldChange| tracking.iter().find(|(name, _)| *name == change.field).cloned();
        let changes = changes.iter().map(|change| FieldChange {
            new: known(change).map_or_else(|| change.new.clone(), |(_, now)| now),
            ..change.clone()
        });
        (Some(EXPEDITION_CHANGE.name), change_event(order, state.status, &changes.collect::<Vec<_>>()))
    } else {
        (None, status_event(order, Some(old.status), state, tracking))
    };
    // pieces that leave are told by the status alone
    let gives_back = old.status.is_booked() && !state.status.is_booked() && step.left.is_none();
    let booked = gives_back.then(|| booked_event(order, state.status).to_string());
    let recorded: RecordedRows = record_orders!(
        connection,
        &[origin],
        stocks,
        "WITH stands AS (SELECT true AS ok), written AS (
             UPDATE expedition
             SET status = $18, errors = $19, packed_at = $20, sent_at = $21, delivered_at = $22,
                 expedited_completely = coalesce($23, expedited_completely), canceling_from = $28,
                 version = version + $29::boolean::int
             WHERE id = $17
             RETURNING id, version, CASE WHEN $29::boolean THEN changed_at ELSE clock_timestamp() END AS changed_at,
                       organisation_id, eshop_id
         )",
        "SELECT id AS entity, organisation_id AS organisation, ARRAY[eshop_id] AS eshops, $24::jsonb AS changes,
                $25::text::jsonb AS data, version, changed_at AS at, 1::bigint AS origin, 'expedition.status' AS action,
                NULL::text AS kind,
                -- a change that the record does not show is only in the audit
                CASE WHEN $29::boolean THEN coalesce($27::text, $14::text) END AS event
         FROM written
         UNION ALL
         SELECT id, organisation_id, ARRAY[eshop_id], NULL, $26::text::jsonb, version, changed_at, 1, NULL, NULL, $15::text
         FROM written WHERE $26::text IS NOT NULL",
        order.id.get(),
        state.status.as_str(),
        state.errors.clone() as Option<Value>,
        step.times.packed as Option<DateTime<Utc>>,
        step.times.sent as Option<DateTime<Utc>>,
        step.times.delivered as Option<DateTime<Utc>>,
        step.is_complete(order) as Option<bool>,
        changes_json(&changes),
        told.to_string(),
        booked as Option<String>,
        event as Option<&str>,
        state.canceling_from.map(Status::as_str) as Option<&str>,
        step.is_shown(order),
    )
    .await?;
    Ok(recorded.lanes)
}

/// What a status event says of parcels: all that the order has, as its record shows them. So whoever keeps the value of the
/// highest version has what is stored.
async fn tracking(
    connection: &mut PgConnection,
    order: &Order,
) -> Result<Vec<(&'static str, Value)>, sqlx::Error> {
    let told = sqlx::query!(
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
        ("trackingNumber", json!(told.tracking_number)),
        ("trackingUrl", json!(told.tracking_url)),
        ("parcels", told.parcels),
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
             UPDATE expedition_item i SET expedited = g.n, changed_at = now()
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
                                            ext_carrier_tracking_number, tracking_url)
             SELECT uuid_v7(), $1, g.* FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS g
             ON CONFLICT (expedition_id, ext_package_number) DO UPDATE
             SET ext_package_tracking_number = excluded.ext_package_tracking_number,
                 ext_carrier_tracking_number = excluded.ext_carrier_tracking_number,
                 tracking_url = excluded.tracking_url, changed_at = now()",
            order.id.get(),
            &numbers as &[&str],
            &column(|parcel| parcel.package_tracking_number.as_deref()) as &[Option<&str>],
            &column(|parcel| parcel.carrier_tracking_number.as_deref()) as &[Option<&str>],
            &column(|parcel| parcel.tracking_url.as_deref()) as &[Option<&str>],
        )
        .execute(&mut *connection)
        .await?;
    }
    if step.tracking_number.is_some() || step.tracking_url.is_some() {
        sqlx::query!(
            "UPDATE expedition_detail
             SET tracking_number = coalesce(tracking_number, $2), tracking_url = coalesce(tracking_url, $3) WHERE id = $1",
            order.id.get(),
            step.tracking_number.as_deref(),
            step.tracking_url.as_deref(),
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}

/// Parcels, each number once: what is given later wins.
fn merged(parcels: &[Parcel]) -> Vec<Parcel> {
    let mut merged: Vec<Parcel> = Vec::with_capacity(parcels.len());
    for parcel in parcels.iter().cloned() {
        match merged.iter_mut().find(|known| known.number == parcel.number) {
            None => merged.push(parcel),
            Some(known) => known.take(parcel),
        }
    }
    merged
}
