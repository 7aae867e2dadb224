//! `webhook.recover`, `webhook.redeliver` and `webhook.replay`: send deliveries again, step by step
//! (`docs/reference/deliveries.md#redelivery`).

use longshore_domain::job::chunk::Claim;
use longshore_domain::job::outcome::Fate;
use longshore_domain::webhook::delivery::recovery::{self, Recover};
use longshore_domain::webhook::delivery::redelivery::{self, Redeliver};
use longshore_domain::webhook::delivery::replay::{self, Replay};
use longshore_domain::webhook::delivery::search;
use longshore_kernel::change::Change;

use super::{Body, Done};

impl Body for Recover {
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, (): ()) -> Result<Done, Fate> {
        Ok(Done::Step(recovery::step(change, claim, self).await?))
    }
}

impl Body for Redeliver {
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, (): ()) -> Result<Done, Fate> {
        Ok(match &self.deliveries {
            Some(matching) => Done::Step(search::step(change, claim, matching).await?),
            None => Done::Items(redelivery::execute(change, claim, &self.within).await?),
        })
    }
}

impl Body for Replay {
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, (): ()) -> Result<Done, Fate> {
        Ok(Done::Step(replay::step(change, claim, self).await?))
    }
}
