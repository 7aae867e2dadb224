//! `admin.activate`, `admin.deactivate` and `admin.delete`: all or nothing, in one chunk
//! (`docs/reference/jobs.md#bulk-operations`).

use longshore_domain::account::admin::bulk::{
    self, ActivateAdmins, DeactivateAdmins, DeleteAdmins, Refusal, Wish,
};
use longshore_domain::job::chunk::{Claim, Count};
use longshore_domain::job::outcome::{Fate, Outcome};
use longshore_domain::job::payload;
use longshore_kernel::change::Change;

use super::{Body, Done};

impl Body for ActivateAdmins {
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, (): ()) -> Result<Done, Fate> {
        execute(change, claim, Wish::Switch { active: true, acceptance: claim.acceptance }).await
    }
}

impl Body for DeactivateAdmins {
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, (): ()) -> Result<Done, Fate> {
        execute(change, claim, Wish::Switch { active: false, acceptance: claim.acceptance }).await
    }
}

impl Body for DeleteAdmins {
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, (): ()) -> Result<Done, Fate> {
        execute(change, claim, Wish::Delete).await
    }
}

/// Executes the chunk. A refusal of one admin refuses all of them, and running the chunk again changes
/// nothing.
async fn execute(change: &mut Change<'_>, claim: &Claim, wish: Wish) -> Result<Done, Fate> {
    let ids = payload::unpack_ids(&claim.payload)?;
    let changed = bulk::execute(change, &claim.origin, wish, &ids).await?.map_err(|refusal| {
        Fate::Discard(match refusal {
            Refusal::Unknown(id) => format!("the admin {id} no longer exists; nothing was changed"),
            Refusal::LastSuperadmin => "no active superadmin would remain; nothing was changed".to_owned(),
        })
    })?;
    let changed = i32::try_from(changed).unwrap_or(i32::MAX);
    let count = Count { changed, unchanged: claim.item_count - changed, failed: 0 };
    Ok(Done::Items(Outcome { count, errors: Vec::new() }))
}
