//! `stock.sync`: sets the quantities that a partner sends (`docs/reference/syncs.md#stocks`).

use longshore_shared::job::chunk::Claim;
use longshore_shared::job::execution::{Fate, Outcome};
use longshore_shared::job::mark::Beside;
use longshore_shared::kernel::change::Change;
use longshore_shared::warehouse::stock::sync::{self, Place};

use super::rows::ReadRows;

/// Executes a chunk: rows that break a rule or name no stocked product become item errors, the others are
/// set.
pub async fn execute(change: &mut Change<'_>, claim: &Claim) -> Result<Outcome, Fate> {
    let (Some(organisation), Some(warehouse), Some(wms)) =
        (claim.organisation, claim.parameters.warehouse, claim.parameters.wms)
    else {
        return Err(Fate::Discard("the job names no warehouse and wms".to_owned()));
    };
    let mut rows = ReadRows::read(claim, sync::read_row)?;
    let beside = Beside::look(change.connection(), claim, organisation).await?;
    let place = Place { organisation, warehouse, wms };
    let eshop = claim.parameters.scope_eshop;
    let applied = sync::apply(change, &claim.origin, place, eshop, beside, &rows.good).await?;
    beside.finish(change.connection()).await?;
    for (position, refusal) in applied.refused {
        let key = rows.good.get(position).map(|row| row.product_sku.clone()).unwrap_or_default();
        rows.refuse(claim, position, &key, &[refusal.violation()]);
    }
    Ok(rows.outcome(claim, applied.changed))
}
