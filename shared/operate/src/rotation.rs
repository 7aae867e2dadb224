//! Rotation of the keys that seal secrets at rest: everything that an older key sealed is sealed with the newest one.
//!
//! To rotate: put the new key before the old ones in `LONGSHORE_ENCRYPTION_KEY` of every process, run
//! `longshore-api rotate-keys`, then remove the old ones. Every table with sealed columns is listed here. A
//! rotation goes over its records in batches, one transaction each, and finds only the remaining ones: it is safe to interrupt.

use uuid::Uuid;

use longshore_domain::account::second_factor;
use longshore_domain::expedition::handover;
use longshore_domain::partner::setting;
use longshore_domain::webhook::subscription;
use longshore_kernel::crypto::Vault;
use longshore_kernel::database::Database;
use longshore_kernel::problem::Problem;
use longshore_kernel::resealing::{Opened, SealedTable};

/// What a rotation came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotated {
    /// Records that the newest key seals now.
    pub resealed: u64,
    /// Records that no configured key opens; they stay as they are.
    pub unreadable: u64,
}

/// The tables with sealed columns.
const TABLES: [SealedTable; 6] = [
    subscription::SEALED,
    subscription::SEALED_FORMER,
    setting::SEALED,
    handover::setting::rotation::SEALED,
    handover::setting::rotation::SEALED_FORMER,
    second_factor::SEALED,
];

/// Tries to open everything, and changes nothing.
pub async fn examine(db: &Database, vault: &Vault) -> Result<Opened, Problem> {
    let mut opened = Opened::default();
    for table in TABLES {
        (table.examine)(&db.main, vault, &mut opened).await?;
    }
    Ok(opened)
}

/// Seals everything by the newest key.
pub async fn rotate(db: &Database, vault: &Vault) -> Result<Rotated, Problem> {
    let mut rotated = Rotated::default();
    for table in TABLES {
        let mut after = Uuid::nil();
        while let Some(done) = (table.reseal)(&db.main, vault, after).await? {
            after = done.last;
            rotated.resealed += done.resealed;
            rotated.unreadable += done.unreadable;
        }
    }
    Ok(rotated)
}
