//! `stock.sync`: sets the quantities that a partner sends (`docs/reference/syncs.md#stocks`).

use longshore_domain::job::chunk::Claim;
use longshore_domain::job::kind::{Shop, SyncStocks};
use longshore_domain::job::mark::Beside;
use longshore_domain::job::outcome::Fate;
use longshore_domain::job::row::ReadRows;
use longshore_domain::partner::push::Push;
use longshore_domain::warehouse::stock::sync::{self, Place, StockRow};
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;

use super::{Body, Done, partner_fetch};
use crate::context::WorkerContext;

impl Body for SyncStocks {
    /// Executes a chunk: rows that break a rule or name no stocked product become item errors, the others are
    /// set.
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, shop: Shop) -> Result<Done, Fate> {
        let Self { scope_eshop, warehouse, wms } = *self;
        let organisation = shop.organisation;
        let rows = ReadRows::read(claim, sync::read_row)?.noticing(StockRow::notices);
        let beside = Beside::look(change.connection(), claim, organisation).await?;
        let place = Place { organisation, warehouse, wms };
        let applied = sync::apply(change, &claim.origin, place, scope_eshop, beside, &rows.good).await?;
        beside.finish(change.connection()).await?;
        let refused = applied.refused.into_iter().map(|(row, refusal)| (row, vec![refusal.violation()]));
        Ok(Done::Items(rows.outcome(applied.changed, refused)))
    }

    async fn call(&self, context: &WorkerContext, claim: &Claim, shop: Shop) -> Result<Hold, Fate> {
        partner_fetch::execute(context, claim, shop, Push::Stocks).await
    }
}
