//! `product.sync`: applies the products that a partner sends (`docs/reference/syncs.md#products`).

use longshore_domain::catalog::product::rules::read_sync_row;
use longshore_domain::catalog::product::sync::{self, Sync};
use longshore_domain::job::chunk::Claim;
use longshore_domain::job::kind::{Shop, SyncProducts};
use longshore_domain::job::mark::Beside;
use longshore_domain::job::outcome::Fate;
use longshore_domain::job::row::ReadRows;
use longshore_domain::partner::push::Push;
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;

use super::{Body, Done, partner_fetch};
use crate::context::WorkerContext;

impl Body for SyncProducts {
    /// Executes a chunk: rows that break a rule become item errors, the others are created, updated, or left
    /// unchanged.
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, shop: Shop) -> Result<Done, Fate> {
        let Shop { organisation, eshop } = shop;
        let rows = ReadRows::read(claim, read_sync_row)?;
        let beside = Beside::look(change.connection(), claim, organisation).await?;
        let bound = self.scope_eshop.is_some();
        let sync =
            Sync { origin: &claim.origin, organisation, eshop, bound, acceptance: claim.acceptance, beside };
        let applied = sync::apply(change, sync, &rows.good).await?;
        beside.finish(change.connection()).await?;
        Ok(Done::Items(rows.outcome(applied.changed, applied.refused)))
    }

    async fn call(&self, context: &WorkerContext, claim: &Claim, shop: Shop) -> Result<Hold, Fate> {
        partner_fetch::execute(context, claim, shop, Push::Products).await
    }
}
