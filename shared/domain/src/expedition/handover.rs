//! What the systems of warehouses have of orders (`docs/reference/orders.md#hand-over`).
//!
//! An order in a wms with an active setting is *due* from the transaction on in which it becomes `awaiting_processing`: a
//! trigger makes its row of `expedition_handover` (migration 0035), whoever changed the status, and takes it back when the order
//! leaves before a call of it has begun.
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

use sqlx::PgConnection;
use uuid::Uuid;

use super::write::Transition;
use crate::list::fields::expedition::HandoverState;
use longshore_kernel::ids::ExpeditionId;

/// A hand-over that gets another state.
#[derive(Clone, Debug)]
pub(super) struct Step {
    id: ExpeditionId,
    state: Option<HandoverState>,
    /// What went wrong, for the record.
    error: Option<String>,
}

impl Step {
    /// What a transition makes of the hand-over of its order.
    pub(super) fn of(transition: &Transition<'_>) -> Self {
        Self {
            id: transition.order.id,
            state: transition.state.handover,
            error: transition.handover_error.clone(),
        }
    }
}

/// Writes hand-overs of locked orders. A withdrawal is due at once, or when the call has ended that is under way.
pub(super) async fn write(connection: &mut PgConnection, steps: &[Step]) -> Result<(), sqlx::Error> {
    if steps.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = steps.iter().map(|step| step.id.get()).collect();
    let states: Vec<Option<&str>> = steps.iter().map(|step| step.state.map(HandoverState::as_str)).collect();
    let errors: Vec<Option<&str>> = steps.iter().map(|step| step.error.as_deref()).collect();
    sqlx::query!(
        "UPDATE expedition_handover h
         SET handover_state = g.state, handover_since = now(), handover_attempts = 0, handover_error = g.error,
             handover_next_attempt_at = CASE WHEN g.state = 'withdrawing' THEN greatest(now(), h.handover_in_call_until) END,
             handover_in_call_until = CASE WHEN g.state = 'withdrawing' THEN h.handover_in_call_until END
         FROM unnest($1::uuid[], $2::text[], $3::text[]) AS g (id, state, error)
         WHERE h.id = ANY (ARRAY[g.id])",
        &ids,
        &states as &[Option<&str>],
        &errors as &[Option<&str>],
    )
    .execute(connection)
    .await
    .map(|_| ())
}
