//! `webhook.recover` and `webhook.redeliver`: deliveries are sent again, a step at a time
//! (`docs/reference/deliveries.md#redelivery`).

use longshore_shared::job::chunk::Claim;
use longshore_shared::job::execution::Fate;
use longshore_shared::job::walking::{self, Step};
use longshore_shared::platform::change::Change;
use longshore_shared::webhook::delivery::{recovery, search};

/// Takes a step of a recovery.
pub async fn recover(mut change: Change<'_>, claim: &Claim) -> Result<bool, Fate> {
    let step = recovery::step(&mut change, claim).await?;
    finish(change, claim, step).await
}

/// Takes a step of sending everything again that matches a search.
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
