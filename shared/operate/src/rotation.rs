//! Rotation of the keys that seal secrets at rest: everything that an older key sealed is sealed with the newest one.
//!
//! To rotate: put the new key before the old ones in `LONGSHORE_ENCRYPTION_KEY` of every process, run
//! `longshore-api rotate-keys`, then remove the old ones. Every table with sealed columns has its part here; each goes
//! over its records in batches, one transaction each, and finds only the remaining ones: it is safe to interrupt.

use uuid::Uuid;

use longshore_domain::account::second_factor;
use longshore_domain::expedition::handover;
use longshore_domain::partner::setting;
use longshore_domain::webhook::subscription;
use longshore_kernel::crypto::{Opened, Resealed, Vault};
use longshore_kernel::database::Database;
use longshore_kernel::problem::Problem;

/// What a rotation came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotated {
    /// Records that the newest key seals now.
    pub resealed: u64,
    /// Records that no configured key opens; they stay as they are.
    pub unreadable: u64,
}

/// Tries to open everything, and changes nothing.
pub async fn examine(db: &Database, vault: &Vault) -> Result<Opened, Problem> {
    let mut opened = Opened::default();
    subscription::reseal::examine(&db.main, vault, &mut opened).await?;
    setting::rotation::examine(&db.main, vault, &mut opened).await?;
    handover::setting::rotation::examine(&db.main, vault, &mut opened).await?;
    second_factor::rotation::examine(&db.main, vault, &mut opened).await?;
    Ok(opened)
}

/// Seals everything by the newest key.
pub async fn rotate(db: &Database, vault: &Vault) -> Result<Rotated, Problem> {
    let mut rotated = Rotated::default();
    rotated.all(async |after| subscription::reseal::reseal(&db.main, vault, after).await).await?;
    rotated.all(async |after| subscription::reseal::reseal_former(&db.main, vault, after).await).await?;
    rotated.all(async |after| setting::rotation::reseal(&db.main, vault, after).await).await?;
    rotated.all(async |after| handover::setting::rotation::reseal(&db.main, vault, after).await).await?;
    rotated.all(async |after| second_factor::rotation::reseal(&db.main, vault, after).await).await?;
    Ok(rotated)
}

impl Rotated {
    /// Goes over a table, batch by batch.
    async fn all(
        &mut self,
        mut batch: impl AsyncFnMut(Uuid) -> Result<Option<Resealed>, Problem>,
    ) -> Result<(), Problem> {
        let mut after = Uuid::nil();
        while let Some(done) = batch(after).await? {
            after = done.last;
            self.resealed += done.resealed;
            self.unreadable += done.unreadable;
        }
        Ok(())
    }
}
