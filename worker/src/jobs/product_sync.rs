//! `product.sync`: applies the products that a partner sends (`docs/reference/syncs.md#products`).

use longshore_shared::catalog::product::rules::read_sync_row;
use longshore_shared::catalog::product::sync::{self, Sync};
use longshore_shared::job::chunk::Claim;
use longshore_shared::job::execution::{Fate, Outcome};
use longshore_shared::job::mark::Beside;
use longshore_shared::kernel::change::Change;

use super::rows::ReadRows;

/// Executes a chunk: rows that break a rule become item errors, the others are created, updated, or left
/// unchanged.
pub async fn execute(change: &mut Change<'_>, claim: &Claim) -> Result<Outcome, Fate> {
    let (Some(organisation), Some(eshop)) = (claim.organisation, claim.eshop) else {
        return Err(Fate::Discard("the job names no e-shop".to_owned()));
    };
    let mut rows = ReadRows::read(claim, read_sync_row)?;
    let beside = Beside::look(change.connection(), claim, organisation).await?;
    let bound = claim.parameters.scope_eshop.is_some();
    let sync =
        Sync { origin: &claim.origin, organisation, eshop, bound, acceptance: claim.acceptance, beside };
    let applied = sync::apply(change, sync, &rows.good).await?;
    beside.finish(change.connection()).await?;
    for (position, violations) in applied.refused {
        let key = rows.good.get(position).map(|row| row.product_sku.clone()).unwrap_or_default();
        rows.refuse(claim, position, &key, &violations);
    }
    Ok(rows.outcome(claim, applied.changed))
}
