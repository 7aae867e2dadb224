//! What a command makes of an order: pure, but for the [`Ledger`] that it books in (`docs/reference/orders.md#operations`).

use serde_json::{Value, json};

use super::allocator::{Decision, Ledger};
use super::order::{Doubt, Order, State};
use crate::list::fields::expedition::{ExpeditionStatus as Status, HandoverState as Handover};
use longshore_kernel::problem::{Problem, WRONG_STATUS};
use longshore_kernel::sqlstate::Overtaken;

/// Why nothing else is done of an order.
const CANCELLING: &str = "the warehouse is being asked to cancel it";
/// What is possible while an order can be held.
const HOLD_FIRST: &str = "hold it first (PUT …/rollback)";

/// What a caller asks of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Sends it; one that is sent already is rebooked if that is asked for.
    Send {
        /// Whether to rebook one that is sent.
        rebook: bool,
    },
    /// Confirms it.
    Process,
    /// Takes it back.
    Rollback,
    /// Ends it.
    Cancel {
        /// Why, for the audit.
        reason: Option<String>,
    },
    /// Gives its pieces back and sends it again.
    Rebook,
    /// Gives its pieces back, and keeps it from being looked at.
    Unbook,
}

impl Command {
    /// The action of its audit record.
    pub(super) fn action(&self) -> &'static str {
        match self {
            Self::Send { .. } => "expedition.send",
            Self::Process => "expedition.process",
            Self::Rollback => "expedition.hold",
            Self::Cancel { .. } => "expedition.cancel",
            Self::Rebook => "expedition.rebook",
            Self::Unbook => "expedition.unbook",
        }
    }

    /// What the audit says beside the state.
    pub(super) fn remark(&self) -> Option<(&'static str, Value)> {
        match self {
            Self::Cancel { reason: Some(reason) } => Some(("reason", json!(reason))),
            _ => None,
        }
    }

    /// Whether it waits for the answer of the warehouse, given what it made of an order.
    pub(super) fn waits_for_the_warehouse(&self, state: &State) -> bool {
        matches!(self, Self::Rollback | Self::Cancel { .. })
            && (state.status == Status::WaitingForCancel || state.handover == Some(Handover::Withdrawing))
    }

    /// The state that it brings an order into; equal to the one before where it changes nothing.
    pub(super) fn decide(&self, order: &Order, ledger: &mut Ledger) -> Result<State, Problem> {
        let status = order.state.status;
        let same = || Ok(order.state.clone());
        match self {
            Self::Send { .. } if status.is_editable() => send(order, ledger).map_err(Problem::from),
            Self::Send { .. } if status == Status::Canceled => {
                Err(wrong_status(status, "it has ended; create one with another number"))
            }
            Self::Send { rebook: true } => Self::Rebook.decide(order, ledger),
            // what was asked of one in doubt is not wanted any more
            Self::Send { rebook: false }
                if order.state.doubt != Doubt::None && order.state.errors.is_none() =>
            {
                Ok(wished(order.state.clone()))
            }
            Self::Send { rebook: false } => same(),
            Self::Process => match status {
                Status::StockOk => Ok(State { status: Status::AwaitingProcessing, ..order.state.clone() }),
                _ if status.place().is_some() => same(),
                Status::WaitingForCancel => Err(wrong_status(status, CANCELLING)),
                Status::Canceled => Err(wrong_status(status, "it has ended")),
                _ => Err(wrong_status(status, "all of it must be booked first")),
            },
            Self::Rollback => match status {
                Status::WaitingForCancel => Err(wrong_status(status, CANCELLING)),
                Status::AwaitingProcessing if order.is_handed_over() => Ok(withdraw(order, status)),
                _ if is_asked_first(order) => Ok(ask(order, Status::OnHold)),
                Status::OnHold => same(),
                _ if !can_be_held(order) => Err(wrong_status(status, "it can no longer be held")),
                _ => Ok(leave(order, ledger, Status::OnHold)),
            },
            Self::Cancel { .. } => match status {
                // since a set-back: it did not give it back
                Status::Canceled if order.state.handover == Some(Handover::Accepted) => {
                    Ok(ask(order, Status::Canceled))
                }
                Status::Canceled | Status::WaitingForCancel => same(),
                Status::AwaitingProcessing | Status::TakeOut | Status::Completion
                    if order.is_handed_over() =>
                {
                    Ok(withdraw(order, Status::WaitingForCancel))
                }
                _ if is_asked_first(order) => Ok(ask(order, Status::Canceled)),
                _ if order.is_handed_over() => {
                    Err(wrong_status(status, "it has left, and can no longer be cancelled"))
                }
                _ => Ok(leave(order, ledger, Status::Canceled)),
            },
            Self::Rebook => {
                is_bookable(order)?;
                release(order, ledger);
                let state = book(order, ledger)?;
                let kept = matches!(state.status, Status::StockOk | Status::AwaitingProcessing);
                // booked again, it waits for its confirmation as before
                let is_same = kept && status == Status::StockOk;
                Ok(if is_same { order.state.clone() } else { state })
            }
            Self::Unbook => {
                is_bookable(order)?;
                if order.state.is_paused {
                    return same();
                }
                if status.is_booked() {
                    ledger.unbook(&order.entered());
                }
                let status = Status::AwaitingReservation;
                Ok(State { status, is_paused: true, waits_for: None, ..order.state.clone() })
            }
        }
    }
}

/// What sending makes of an order that has not been sent: it is incorrect, or is booked, or waits.
pub(super) fn send(order: &Order, ledger: &mut Ledger) -> Result<State, Overtaken> {
    let (errors, is_address_checked) = (order.errors(), order.checks_address);
    if errors.is_none() {
        return Ok(wished(State { errors, is_address_checked, ..book(order, ledger)? }));
    }
    let State { handover, doubt, .. } = order.state;
    Ok(State { status: Status::Incorrect, errors, is_address_checked, handover, doubt, ..State::default() })
}

/// One that is sent while its warehouse is asked for it: it is handed over again, or will be, and nothing else is done of it.
fn wished(state: State) -> State {
    let is_due = state.status == Status::AwaitingProcessing && state.handover == Some(Handover::Withdrawing);
    State { then: is_due.then_some(Status::AwaitingProcessing), ..state }
}

/// Books an order that holds nothing and waits for nothing.
fn book(order: &Order, ledger: &mut Ledger) -> Result<State, Overtaken> {
    Ok(placed(order, ledger.send(&order.demand()?)))
}

/// The state of an order by what was decided of it.
pub(super) fn placed(order: &Order, decision: Decision) -> State {
    let (status, waits_for) = match decision {
        Decision::Booked if order.waits_before => (Status::StockOk, None),
        Decision::Booked => (Status::AwaitingProcessing, None),
        Decision::Waits(lack) => (Status::WaitingForGoods, Some(lack)),
        Decision::Queues(lack) => (Status::AwaitingReservation, Some(lack)),
    };
    State { status, waits_for, is_paused: false, ..order.state.clone() }
}

/// Gives back what an order holds or waits for, unless it goes on in its next state.
pub(super) fn let_go(order: &Order, next: &State, ledger: &mut Ledger) {
    if !next.status.is_booked() && !next.status.is_waiting() {
        release(order, ledger);
    }
}

/// Gives back what an order holds or waits for.
fn release(order: &Order, ledger: &mut Ledger) {
    if order.state.status.is_booked() {
        ledger.release(&order.entered());
    } else if order.state.status.is_waiting() {
        ledger.withdraw(&order.entered());
    }
}

/// The warehouse is asked to give an order back; it keeps what it holds until the answer. One that is handed over by hand is asked
/// for by hand. A withdrawal that is under way is taken over.
fn withdraw(order: &Order, status: Status) -> State {
    let handover = match order.state.handover {
        Some(Handover::Sending | Handover::Accepted) => Some(Handover::Withdrawing),
        _ if order.state.doubt == Doubt::Whether => Some(Handover::Withdrawing),
        other => other,
    };
    let canceling_from = (status == Status::WaitingForCancel).then_some(order.state.status);
    // one that is cancelled is not incorrect any more
    let errors = order.state.errors.clone().filter(|_| status != Status::WaitingForCancel);
    State { status, errors, canceling_from, handover, then: None, ..order.state.clone() }
}

/// Whether an order is asked back before anything is done of it, although its status does not say that the warehouse has it: since a
/// set-back it may.
fn is_asked_first(order: &Order) -> bool {
    let State { status, handover, doubt, .. } = order.state;
    let may_be_there = doubt == Doubt::Whether || handover.is_some_and(Handover::is_handed_over);
    let is_begun = status.place() > Some(0) || status == Status::WaitingForCancel;
    may_be_there && !is_begun && status != Status::Canceled
}

/// The warehouse is asked for an order that it may have since a set-back; its status stays until the answer.
fn ask(order: &Order, then: Status) -> State {
    State { handover: Some(Handover::Withdrawing), then: Some(then), ..order.state.clone() }
}

fn leave(order: &Order, ledger: &mut Ledger, status: Status) -> State {
    release(order, ledger);
    State { status, waits_for: None, is_paused: false, ..order.state.clone() }
}

fn is_bookable(order: &Order) -> Result<(), Problem> {
    let status = order.state.status;
    let first = match status {
        _ if status.is_waiting() || status == Status::StockOk => return Ok(()),
        _ if status.is_editable() => "send it first",
        _ if can_be_held(order) => HOLD_FIRST,
        Status::WaitingForCancel => CANCELLING,
        Status::Canceled => "it has ended",
        _ => "it has left",
    };
    Err(wrong_status(status, first))
}

/// Whether an order can be held, or asked back to be held; one that is on hold is.
fn can_be_held(order: &Order) -> bool {
    match order.state.status {
        Status::AwaitingProcessing => true,
        Status::Canceled => false,
        _ => !order.is_handed_over(),
    }
}

/// What is wrong with a body that would change an order in its status: it says what is possible instead. One that is `kept` is never
/// deleted.
pub(super) fn not_editable(order: &Order, is_kept: bool) -> String {
    let status = order.state.status;
    let instead = match status {
        Status::Canceled if is_kept => "it has ended: use another number",
        Status::Canceled => "it has ended: delete it, or use another number",
        _ if can_be_held(order) => HOLD_FIRST,
        Status::WaitingForCancel => {
            "the warehouse is being asked to cancel it; only ref1–3 and externalId can be changed"
        }
        _ => "it has left; only ref1–3 and externalId can be changed",
    };
    format!("is {status}: {instead}")
}

/// 409: names the status, and what to do first, which must be possible.
pub(super) fn wrong_status(status: Status, first: &str) -> Problem {
    Problem::new(&WRONG_STATUS, format!("the order is {status}: {first}"))
}
