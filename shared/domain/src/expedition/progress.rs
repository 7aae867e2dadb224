//! Reports of a warehouse by hand (`docs/reference/orders.md#status-by-hand`): an order goes along the line from
//! `awaiting_processing` to `delivered`, or is incorrect. Packing takes its pieces out of the stock.

mod body;
mod write;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use self::body::{Report, read};
pub use self::body::{body, check};
use super::allocator::{Demand, Ledger};
use super::decision::{let_go, wrong_status};
use super::handover;
use super::order::{self, Order, State};
use super::report::{Parcel, Times, Tracking, merged};
use super::stocks;
use super::write::{ENTITY, location};
use crate::list;
use crate::list::fields::expedition::{EXPEDITION, ExpeditionStatus as Status, HandoverState};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{ExpeditionId, ExpeditionItemId, StockId};
use longshore_kernel::problem::{Problem, Violation, with_found};
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Takes a report by hand: 200 with the record.
pub async fn report(
    services: &Services,
    context: &Context,
    id: ExpeditionId,
    body: Value,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let now = services.clock.now();
    let (report, refused) = read(body, now);
    let mut change = Change::begin(services).await?;
    let scope = context.scope();
    let Some(order) = order::lock(change.connection(), scope, &[id]).await?.pop() else {
        return Err(tombstone::missing(change.connection(), scope, ENTITY, id.get()).await);
    };
    check(order.version)?;
    if !refused.is_empty() {
        return Err(Problem::invalid(with_found(refused, strangers(&order, &report))));
    }
    let is_reported = is_reported(change.connection(), &order).await?;
    let times = times(change.connection(), id.get()).await?;
    let known = Known::read(change.connection(), id.get(), &report).await?;
    let locked = stocks::lock(change.connection(), std::slice::from_ref(&order)).await?;
    let asks_back = is_reported && is_asked_back(&order, &report);
    let mut step = decide(&order, &report, asks_back, now, times, &known, locked.ledger)?;
    // only now: what is not possible at all is not possible with `force`
    if !report.force && is_reported {
        let first = "the system of its warehouse reports on it; with `force` it is moved by hand";
        return Err(wrong_status(order.state.status, first));
    }
    if step.is_change(&order) {
        let lanes = write::write(change.connection(), &context.origin, &order, &mut step).await?;
        change.note_lanes(lanes);
    }
    let record = list::find(change.connection(), &EXPEDITION, scope, id.get()).await?;
    let record = record.ok_or_else(|| Problem::not_found(ENTITY))?;
    let answer = Answer::updated(location(id), record.version, record.json);
    change.answer(context.claim, answer).await
}

/// Whether a WMS reports on an order: its system is called, and the order is not too old for it, or was handed over.
async fn is_reported(connection: &mut PgConnection, order: &Order) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM wms_setting s JOIN expedition e ON e.id = $2
                          WHERE s.wms_id = $1 AND s.active AND (e.created_at >= s.since OR $3)) AS "is!""#,
        order.place.wms.get(),
        order.id.get(),
        order.state.handover.is_some(),
    )
    .fetch_one(connection)
    .await
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

/// Where an order can be tracked, its parcels, and what left of it, as was reported before.
#[derive(Clone, Debug, Default)]
struct Known {
    tracking: Tracking,
    /// Those of the parcels that are reported again.
    parcels: Vec<Parcel>,
    /// What left of the items, if they are reported again.
    left: Vec<Left>,
}

/// What left of an item of an order that is packed.
#[derive(Clone, Debug)]
struct Left {
    id: ExpeditionItemId,
    expedited: i32,
}

impl Known {
    async fn read(connection: &mut PgConnection, id: Uuid, report: &Report) -> Result<Self, sqlx::Error> {
        let left = match report.items {
            Some(_) => left(connection, id).await?,
            None => Vec::new(),
        };
        if report.parcels.is_empty() {
            return Ok(Self { left, ..Self::default() });
        }
        let numbers: Vec<&str> = report.parcels.iter().map(|parcel| parcel.number.as_str()).collect();
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
        let tracking = Tracking { number: detail.tracking_number, url: detail.tracking_url };
        Ok(Self { tracking, parcels: known, left })
    }

    /// Those of parcels that say something new, each number once and in full.
    fn unknown(&self, parcels: &[Parcel]) -> Vec<Parcel> {
        let merged = merged(&[&self.parcels, parcels].map(<[Parcel]>::to_vec).concat());
        let is_reported = |parcel: &Parcel| parcels.iter().any(|one| one.number == parcel.number);
        merged.into_iter().filter(|parcel| is_reported(parcel) && !self.parcels.contains(parcel)).collect()
    }
}

/// What a report makes of an order.
struct Step {
    state: State,
    times: Times,
    had: Times,
    /// Parcels that are new, or are known in another way since.
    parcels: Vec<Parcel>,
    /// Where it could be tracked, and where it can be now.
    tracked: Tracking,
    tracking: Tracking,
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
            tracked: Tracking::default(),
            tracking: Tracking::default(),
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
        let shown = |state: &State| State { canceling_from: None, ..handover::without(state) };
        shown(&self.state) != shown(&order.state)
            || self.times != self.had
            || !self.parcels.is_empty()
            || self.tracking != self.tracked
    }

    /// How many pieces of an item left; none: it is not packed now.
    fn left(&self) -> Option<impl Fn(ExpeditionItemId) -> i32> {
        let left = self.left.as_ref()?;
        Some(|item| left.iter().find(|(id, ..)| *id == item).map_or(0, |(.., pieces)| *pieces))
    }

    /// Whether everything that was ordered has left; none: it is not packed now.
    fn is_complete(&self, order: &Order) -> Option<bool> {
        self.left().map(|left| order.is_complete(left))
    }
}

/// Whether the warehouse is asked for an order before it is incorrect: its system has it, or may have it, and would ship it. Said
/// again while it is asked, that counts at once, for a system that is gone for good.
fn is_asked_back(order: &Order, report: &Report) -> bool {
    let State { status, handover, errors, .. } = &order.state;
    report.status == Some(Status::Incorrect)
        && handover.is_some_and(HandoverState::is_handed_over)
        && errors.is_none()
        && *status != Status::WaitingForCancel
        && !status.is_packed()
}

fn decide(
    order: &Order,
    report: &Report,
    asks_back: bool,
    now: DateTime<Utc>,
    had: Times,
    known: &Known,
    mut ledger: Ledger,
) -> Result<Step, Problem> {
    if let Some(state) = answer(order, report)? {
        let_go(order, &state, &mut ledger);
        return Ok(Step::of(state, had, ledger));
    }
    let (old, new) = (order.state.status, report.status.unwrap_or(order.state.status));
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
                times = had.reach(new, report.at.unwrap_or(now));
            }
            let leaves = leaving(order, report)?;
            contradict_nothing(report, &known.left, &leaves)?;
            if new.is_packed() && !old.is_packed() {
                let demand = Demand::new(leaves.iter().map(|(_, stock, n)| (*stock, i64::from(*n))));
                found = ledger.pack(&order.entered(), &demand);
                left = Some(leaves);
                state.errors = None;
            }
        }
        (Some(_), Some(_)) => return Err(wrong_status(old, &format!("it does not go back to {new}"))),
        (Some(_), None) if asks_back => {
            state = handover::asked_back_for(&order.state, report.errors.as_ref());
        }
        (Some(_), None) if !old.is_packed() => {
            ledger.release(&order.entered());
            state.errors.clone_from(&report.errors);
        }
        (None, None) if old == Status::Incorrect => state.errors.clone_from(&report.errors),
        _ => {
            return Err(wrong_status(
                old,
                "the warehouse can report what is awaiting_processing, or further",
            ));
        }
    }
    let parcels = known.unknown(&report.parcels);
    let tracking = known.tracking.after(&report.parcels, &known.parcels, &parcels);
    Ok(Step { state, times, had, parcels, tracked: known.tracking.clone(), tracking, ledger, left, found })
}

/// What an order becomes whose warehouse answers, by hand, what it was asked for; nothing where it reports something else.
fn answer(order: &Order, report: &Report) -> Result<Option<State>, Problem> {
    let (state, status) = (&order.state, order.state.status);
    match (report.cancel, report.status) {
        (Some(gives_back), _) if handover::is_asked_for(state) => {
            Ok(Some(if gives_back { handover::given_back(state) } else { handover::kept(state) }))
        }
        (Some(_), _) => Err(wrong_status(status, "its warehouse was not asked for it")),
        (None, Some(Status::Canceled)) if status == Status::WaitingForCancel => {
            Ok(Some(handover::given_back(state)))
        }
        (None, Some(Status::Canceled)) if status == Status::Canceled => Ok(Some(state.clone())),
        (None, Some(Status::Canceled)) => {
            Err(wrong_status(status, "its warehouse was not asked to cancel it"))
        }
        _ => Ok(None),
    }
}

/// Reported items that are not those of the order.
fn strangers(order: &Order, report: &Report) -> Vec<Violation> {
    let reported = report.items.iter().flatten().enumerate();
    reported
        .filter(|(_, (id, _))| !order.items.iter().any(|item| item.id == *id))
        .map(|(index, _)| {
            let path = format!("items[{index}].id");
            Violation::new(path, "unknown_reference", "must be an item of the order")
        })
        .collect()
}

/// What leaves of each item: what is reported, added up; without a report, all that was ordered.
fn leaving(order: &Order, report: &Report) -> Result<Vec<(ExpeditionItemId, StockId, i32)>, Problem> {
    let mut violations = strangers(order, report);
    let reported = report.items.as_deref();
    let mut left = Vec::with_capacity(order.items.len());
    for item in &order.items {
        let Some(stock) = item.stock else { continue };
        let Some(reported) = reported else {
            left.push((item.id, stock, item.quantity));
            continue;
        };
        let sum: i64 = reported.iter().filter(|(id, _)| *id == item.id).map(|(_, n)| i64::from(*n)).sum();
        if let Some(sum) = i32::try_from(sum).ok().filter(|sum| *sum <= item.quantity) {
            left.push((item.id, stock, sum));
        } else {
            let index = reported.iter().position(|(id, _)| *id == item.id).unwrap_or_default();
            let message = format!("must come to at most {}, as was ordered", item.quantity);
            violations.push(Violation::new(format!("items[{index}].expedited"), "too_many", message));
        }
    }
    Problem::refuse(violations)?;
    Ok(left)
}

/// Checks that a report on an order that is packed says of no item that another quantity left.
fn contradict_nothing(
    report: &Report,
    left: &[Left],
    leaves: &[(ExpeditionItemId, StockId, i32)],
) -> Result<(), Problem> {
    let Some(reported) = report.items.as_deref() else { return Ok(()) };
    let differs = |item: &Left| leaves.iter().any(|(id, _, n)| *id == item.id && *n != item.expedited);
    let violations: Vec<_> = left
        .iter()
        .filter(|item| differs(item))
        .map(|item| {
            let index = reported.iter().position(|(id, _)| *id == item.id);
            let path = index.map_or_else(|| "items".to_owned(), |index| format!("items[{index}].expedited"));
            let message = format!(
                "must say that {} of item {} left, as was reported when the order was packed",
                item.expedited,
                item.id.get()
            );
            Violation::new(path, "contradiction", message)
        })
        .collect();
    Problem::refuse(violations)
}
