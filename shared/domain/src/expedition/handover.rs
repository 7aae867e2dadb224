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
pub mod doubt;
pub mod fill;
pub mod lane;
pub mod outcome;
pub mod refusal;
pub mod schedule;
pub mod setting;
pub mod wake;

use std::collections::HashSet;

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::order::{Doubt, Order, State};
use super::write::Transition;
use crate::list::fields::expedition::{ExpeditionStatus as Status, HandoverState};
use longshore_kernel::ids::ExpeditionId;

/// A hand-over that gets another state.
#[derive(Clone, Debug)]
pub(super) struct Step {
    id: ExpeditionId,
    state: Option<HandoverState>,
    doubt: Doubt,
    then: Option<Status>,
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
    State { handover: Some(HandoverState::Withdrawing), errors: errors.cloned(), then: None, ..state.clone() }
}

/// A state without what it says of the hand-over: that changes neither the version nor the record's other fields.
pub(super) fn without(state: &State) -> State {
    State { handover: None, doubt: Doubt::None, then: None, ..state.clone() }
}

/// Whether two states of an order say something else of its hand-over.
pub(super) fn differ(one: &State, other: &State) -> bool {
    let said = |state: &State| (state.handover, state.doubt, state.then);
    said(one) != said(other)
}

/// What becomes of an order that the warehouse gives back: what was asked. One that it reported on since is incorrect, and does not
/// get lost. One in doubt that nothing was asked of stays where it is ([`doubt`]).
pub(super) fn given_back(state: &State) -> State {
    let handover =
        state.handover.map(|state| if state.is_handed_over() { HandoverState::Withdrawn } else { state });
    let back = State { handover, doubt: Doubt::None, then: None, canceling_from: None, ..state.clone() };
    let left = |status| State { status, waits_for: None, is_paused: false, ..back.clone() };
    let is_begun = state.status.place() > Some(0);
    match (state.status, state.then) {
        (Status::WaitingForCancel, _) | (_, Some(Status::Canceled)) => left(Status::Canceled),
        (Status::AwaitingProcessing, None) if state.errors.is_none() => left(Status::OnHold),
        (_, Some(Status::OnHold)) if !is_begun => left(Status::OnHold),
        (Status::AwaitingProcessing, Some(_)) => State { handover: Some(HandoverState::Pending), ..back },
        (status, _) if status.place().is_none() => back,
        _ => {
            let errors = back.errors.clone().unwrap_or_else(|| refusal::alone("withdrawn", BEGUN));
            State { status: Status::Incorrect, errors: Some(errors), ..back }
        }
    }
}

/// What becomes of an order that the warehouse does not give back: it goes back to where it was.
pub(super) fn kept(state: &State) -> State {
    let status = state.canceling_from.unwrap_or(state.status);
    let errors = state.errors.clone().filter(|_| status == Status::Incorrect);
    found(&State { status, canceling_from: None, errors, ..state.clone() })
}

/// An order that its warehouse turns out to have. What was in doubt of it is known now, but for its contents; where all of it is booked,
/// the warehouse can begin with it.
pub(super) fn found(state: &State) -> State {
    let (doubt, handover) = match (state.doubt, state.handover) {
        (Doubt::Whether, _) => (Doubt::Contents, Some(HandoverState::Accepted)),
        (doubt, Some(HandoverState::Withdrawing)) => (doubt, Some(HandoverState::Accepted)),
        other => other,
    };
    let status = if state.status == Status::StockOk { Status::AwaitingProcessing } else { state.status };
    State { status, handover, doubt, then: None, ..state.clone() }
}

impl Step {
    /// One that is reported by hand.
    pub(super) fn by_hand(order: &Order, state: &State, error: Option<&str>) -> Option<Self> {
        let error = error.map(str::to_owned);
        differ(&order.state, state).then_some(Self {
            id: order.id,
            state: state.handover,
            doubt: state.doubt,
            then: state.then,
            error,
            is_by_hand: true,
        })
    }

    /// What a transition makes of the hand-over of its order.
    pub(super) fn of(transition: &Transition<'_>) -> Self {
        Self {
            id: transition.order.id,
            state: transition.state.handover,
            doubt: transition.state.doubt,
            then: transition.state.then,
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
    let in_doubt: Vec<bool> = steps.iter().map(|step| step.doubt != Doubt::None).collect();
    let unknown: Vec<bool> = steps.iter().map(|step| step.doubt == Doubt::Contents).collect();
    let then: Vec<Option<&str>> = steps.iter().map(|step| step.then.map(Status::as_str)).collect();
    sqlx::query!(
        "UPDATE expedition_handover h
         SET handover_state = g.state, handover_since = now(), handover_attempts = 0, handover_error = g.error,
             handover_next_attempt_at = CASE
                 -- the call that was answered has ended
                 WHEN g.state = 'pending' AND NOT g.by_hand THEN now()
                 WHEN g.state IN ('pending', 'withdrawing') THEN greatest(now(), h.handover_in_call_until) END,
             handover_in_call_until = CASE WHEN g.state = 'withdrawing' OR g.by_hand THEN h.handover_in_call_until END,
             -- one that was asked back is handed over again: that of an order in doubt is the one that it is in now
             handover_wms_id = CASE WHEN g.state = 'pending' THEN (SELECT e.wms_id FROM expedition e WHERE e.id = h.id)
                                    ELSE h.handover_wms_id END,
             handover_number = CASE WHEN g.state = 'pending' THEN greatest(h.handover_number, handover_floor()) + 1
                                    ELSE h.handover_number END,
             wms_internal_id = CASE WHEN g.state = 'pending' THEN NULL ELSE h.wms_internal_id END,
             handover_in_doubt = g.in_doubt, handover_contents_unknown = g.unknown, handover_then = g.wish
         FROM unnest($1::uuid[], $2::text[], $3::text[], $4::boolean[], $5::boolean[], $6::boolean[], $7::text[])
             AS g (id, state, error, by_hand, in_doubt, unknown, wish)
         WHERE h.id = ANY (ARRAY[g.id])",
        &ids,
        &states as &[Option<&str>],
        &errors as &[Option<&str>],
        &by_hand,
        &in_doubt,
        &unknown,
        &then as &[Option<&str>],
    )
    .execute(connection)
    .await
    .map(|_| ())
}

/// Those of orders that their warehouse is asked for.
pub(super) async fn asked_for(
    connection: &mut PgConnection,
    ids: &[ExpeditionId],
) -> Result<HashSet<ExpeditionId>, sqlx::Error> {
    let asked = sqlx::query_scalar!(
        r#"SELECT id AS "id: ExpeditionId" FROM expedition_handover WHERE id = ANY($1) AND handover_state = 'withdrawing'"#,
        ids as &[ExpeditionId],
    )
    .fetch_all(connection)
    .await?;
    Ok(asked.into_iter().collect())
}
