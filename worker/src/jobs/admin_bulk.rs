//! `admin.activate`, `admin.deactivate` and `admin.delete`: all or nothing, in one chunk
//! (`docs/reference/jobs.md#bulk-operations`).

use longshore_shared::account::admin::bulk::{self, Refusal, Wish};
use longshore_shared::job::chunk::{Claim, Count};
use longshore_shared::job::execution::{Fate, Outcome};
use longshore_shared::job::kind::JobKind;
use longshore_shared::job::payload;
use longshore_shared::kernel::change::Change;

/// Executes the chunk. A refusal of one admin refuses all of them, and running the chunk again changes
/// nothing.
pub async fn execute(change: &mut Change<'_>, claim: &Claim) -> Result<Outcome, Fate> {
    let ids = payload::unpack_ids(&claim.payload)?;
    let wish = match claim.kind {
        JobKind::AdminDelete => Wish::Delete,
        kind => Wish::Switch { active: kind == JobKind::AdminActivate, acceptance: claim.acceptance },
    };
    let changed = bulk::execute(change, &claim.origin, wish, &ids).await?.map_err(|refusal| {
        Fate::Discard(match refusal {
            Refusal::Unknown(id) => format!("the admin {id} no longer exists; nothing was changed"),
            Refusal::LastSuperadmin => "no active superadmin would remain; nothing was changed".to_owned(),
        })
    })?;
    let changed = i32::try_from(changed).unwrap_or(i32::MAX);
    let count = Count { changed, unchanged: claim.item_count - changed, failed: 0 };
    Ok(Outcome { count, errors: Vec::new() })
}
