//! What the systems of warehouses have of orders (`docs/reference/orders.md#hand-over`).
//!
//! An order in a wms with an active setting is *due* from the transaction on in which it becomes `awaiting_processing`: a
//! trigger (`expedition_handover_follows`) makes its row of `expedition_handover` with any change of the status, and takes it
//! back when the order leaves before a call of it has begun.
//!
//! Each change of such a row is made under the lock of its order, and so is each look at it that decides something. So of a
//! cancel and a call that begin at the same moment, one is first: the cancel finds the order `sending` and asks for it back, or the
//! call finds it no longer due.

pub mod call;
pub mod fill;
pub mod lane;
pub mod outcome;
pub mod refusal;
pub mod schedule;
pub mod setting;
pub mod wake;

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::order::{Order, State};
use super::write::Transition;
use crate::list::fields::expedition::{ExpeditionStatus as Status, HandoverState};
use longshore_kernel::ids::ExpeditionId;

/// A hand-over that gets another state.
#[derive(Clone, Debug)]
pub(super) struct Step {
    id: ExpeditionId,
    state: Option<HandoverState>,
    /// What went wrong, for the record.
    error: Option<String>,
    /// A call of it may be under way: it is not the answer to one that decides.
    is_by_hand: bool,
}

/// The warehouse gave back what it had begun with.
const BEGUN: &str = "the warehouse gave it back after it had begun with it";

/// The warehouse did not give an order back.
pub(super) const KEPT: &str = "the warehouse did not give it back";

/// Whether the warehouse was asked for an order and has not answered.
pub(super) fn is_asked_for(state: &State) -> bool {
    state.status == Status::WaitingForCancel || state.handover == Some(HandoverState::Withdrawing)
}

/// An order that is said to be incorrect is asked back first: while it is `withdrawing`, `errors` are what it is to be incorrect for.
pub(super) fn asked_back_for(state: &State, errors: Option<&Value>) -> State {
    State { handover: Some(HandoverState::Withdrawing), errors: errors.cloned(), ..state.clone() }
}

/// What becomes of an order that the warehouse gives back: what was asked. One that it reported on since is incorrect, and does not
/// get lost.
pub(super) fn given_back(state: &State) -> State {
    let handover =
        state.handover.map(|state| if state.is_handed_over() { HandoverState::Withdrawn } else { state });
    let back = State { handover, canceling_from: None, ..state.clone() };
    match state.status {
        Status::AwaitingProcessing if state.errors.is_none() => State { status: Status::OnHold, ..back },
        Status::WaitingForCancel => State { status: Status::Canceled, ..back },
        _ => {
            let errors = back.errors.clone().unwrap_or_else(|| refusal::alone("withdrawn", BEGUN));
            State { status: Status::Incorrect, errors: Some(errors), ..back }
        }
    }
}

/// What becomes of an order that the warehouse does not give back: it goes back to where it was.
pub(super) fn kept(state: &State) -> State {
    let handover = match state.handover {
        Some(HandoverState::Withdrawing) => Some(HandoverState::Accepted),
        other => other,
    };
    let status = state.canceling_from.unwrap_or(state.status);
    State { status, handover, canceling_from: None, errors: None, ..state.clone() }
}

impl Step {
    /// One that is reported by hand.
    pub(super) fn by_hand(order: &Order, state: &State, error: Option<&str>) -> Option<Self> {
        let error = error.map(str::to_owned);
        (order.state.handover != state.handover).then_some(Self {
            id: order.id,
            state: state.handover,
            error,
            is_by_hand: true,
        })
    }

    /// What a transition makes of the hand-over of its order.
    pub(super) fn of(transition: &Transition<'_>) -> Self {
        Self {
            id: transition.order.id,
            state: transition.state.handover,
            error: transition.handover_error.clone(),
            is_by_hand: false,
        }
    }
}

/// Writes hand-overs of locked orders. Whatever is called next is due at once, or when the call has ended that is under way.
pub(super) async fn write(connection: &mut PgConnection, steps: &[Step]) -> Result<(), sqlx::Error> {
    if steps.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = steps.iter().map(|step| step.id.get()).collect();
    let states: Vec<Option<&str>> = steps.iter().map(|step| step.state.map(HandoverState::as_str)).collect();
    let errors: Vec<Option<&str>> = steps.iter().map(|step| step.error.as_deref()).collect();
    let by_hand: Vec<bool> = steps.iter().map(|step| step.is_by_hand).collect();
    sqlx::query!(
        "UPDATE expedition_handover h
         SET handover_state = g.state, handover_since = now(), handover_attempts = 0, handover_error = g.error,
             handover_next_attempt_at = CASE WHEN g.state = 'withdrawing' THEN greatest(now(), h.handover_in_call_until) END,
             handover_in_call_until = CASE WHEN g.state = 'withdrawing' OR g.by_hand THEN h.handover_in_call_until END
         FROM unnest($1::uuid[], $2::text[], $3::text[], $4::boolean[]) AS g (id, state, error, by_hand)
         WHERE h.id = ANY (ARRAY[g.id])",
        &ids,
        &states as &[Option<&str>],
        &errors as &[Option<&str>],
        &by_hand,
    )
    .execute(connection)
    .await
    .map(|_| ())
}
