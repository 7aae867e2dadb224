//! `webhook.recover` and `webhook.redeliver`: send deliveries again, step by step
//! (`docs/reference/deliveries.md#redelivery`).

use longshore_shared::job::chunk::Claim;
use longshore_shared::job::execution::Fate;
use longshore_shared::job::walking::{self, Step};
use longshore_shared::kernel::change::Change;
use longshore_shared::webhook::delivery::{recovery, search};

/// Executes a step of a recovery.
pub async fn recover(mut change: Change<'_>, claim: &Claim) -> Result<bool, Fate> {
    let step = recovery::step(&mut change, claim).await?;
    finish(change, claim, step).await
}

/// Executes a step of redelivering everything that matches a search.
pub async fn redeliver_matching(mut change: Change<'_>, claim: &Claim) -> Result<bool, Fate> {
    let step = search::step(&mut change, claim).await?;
    finish(change, claim, step).await
}

async fn finish(mut change: Change<'_>, claim: &Claim, step: Step) -> Result<bool, Fate> {
    if !walking::complete(&mut change, claim, step).await? {
        return Ok(false);
    }
    change.commit().await?;
    Ok(true)
}
