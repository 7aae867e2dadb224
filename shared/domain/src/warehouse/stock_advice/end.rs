//! Cancelling: announced pieces that have not arrived are no longer expected.

use super::ATTEMPTS;
use super::record::{self, Item};
use crate::list::fields::stock_advice::AdviceStatus;
use crate::warehouse::stock::movement;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::StockAdviceId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Cancels an advice (`PUT /api/stock-advice/{id}/cancel`). One that has ended is refused. What has been
/// received stays in stock. `check` refuses a version.
pub async fn cancel(
    services: &Services,
    context: &Context,
    id: StockAdviceId,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    for _ in 1..ATTEMPTS {
        match attempt(services, context, id, &check).await {
            Err(problem) if problem.is_contention() && !problem.is_locked() => {}
            outcome => return outcome,
        }
    }
    attempt(services, context, id, &check).await
}

async fn attempt(
    services: &Services,
    context: &Context,
    id: StockAdviceId,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let advice = record::lock(change.connection(), context.scope(), id).await?;
    check(advice.version)?;
    advice.must_be_open()?;
    let items = advice.items(change.connection()).await?;
    let origin = &context.origin;
    let recorded = advice
        .write(change.connection(), origin, "stock_advice.cancel", AdviceStatus::Cancelled, &[])
        .await?;
    change.note(recorded);
    let moves: Vec<_> = items.iter().map(Item::withdrawn).collect();
    movement::apply(&mut change, origin, "stock_advice.cancel", id, advice.place, &moves).await?;
    let answer = record::updated(change.connection(), context.scope(), id).await?;
    change.answer(context.claim, answer).await
}
