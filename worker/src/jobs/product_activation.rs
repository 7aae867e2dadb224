//! `product.activate` and `product.deactivate`: switches a chunk of products (`docs/reference/jobs.md#bulk-operations`).

use longshore_domain::catalog::product::switch::{self, Switch};
use longshore_domain::job::chunk::{Claim, Count};
use longshore_domain::job::item_error::ItemError;
use longshore_domain::job::kind::{ActivateProducts, DeactivateProducts, Within};
use longshore_domain::job::outcome::{Fate, Outcome};
use longshore_domain::job::payload;
use longshore_kernel::change::Change;

use super::{Body, Done};

impl Body for ActivateProducts {
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, (): ()) -> Result<Done, Fate> {
        execute(change, claim, &self.0, true).await
    }
}

impl Body for DeactivateProducts {
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, (): ()) -> Result<Done, Fate> {
        execute(change, claim, &self.0, false).await
    }
}

/// Executes a chunk: ids of no product in the scope become item errors, the others are switched.
async fn execute(
    change: &mut Change<'_>,
    claim: &Claim,
    within: &Within,
    active: bool,
) -> Result<Done, Fate> {
    let ids = payload::unpack_ids(&claim.payload)?;
    let wish = Switch {
        ids: &ids,
        active,
        acceptance: claim.acceptance,
        organisations: within.organisations.as_deref(),
        eshop: within.scope_eshop,
    };
    let recorded = switch::switch(change.connection(), &claim.origin, wish).await?;
    let changed = i32::try_from(change.note(recorded)).unwrap_or(i32::MAX);
    // if every id was switched, none is unknown: most chunks need no second look-up
    let unknown = if changed == claim.item_count {
        Vec::new()
    } else {
        switch::unknown(change.connection(), wish).await?
    };
    let errors: Vec<ItemError> = unknown
        .into_iter()
        .filter_map(|position| {
            let id = ids.get(position)?;
            Some(ItemError {
                index: claim.index(position),
                line: None,
                key: Some(id.to_string()),
                code: "not_found",
                message: "there is no such product".to_owned(),
                field: None,
                payload: id.get().as_bytes().to_vec(),
                notice: false,
            })
        })
        .collect();
    let failed = i32::try_from(errors.len()).unwrap_or(i32::MAX);
    let count = Count { changed, unchanged: claim.item_count - changed - failed, failed };
    Ok(Done::Items(Outcome { count, errors }))
}
