//! Stored data: sealed secrets and orders in Postgres, objects in the object store.

use super::{Finding, PATIENCE, reason};
use crate::rotation;
use longshore_domain::expedition::invariants;
use longshore_kernel::config::{ObjectStoreSettings, VaultSettings};
use longshore_kernel::crypto::Vault;
use longshore_kernel::database::Database;
use longshore_kernel::objects::Objects;
use longshore_kernel::problem::Problem;

const SECRETS: &str = "secrets";
const OBJECTS: &str = "objects";
const ORDERS: &str = "orders";

/// Whether the keys open what is stored.
pub(super) async fn examine_secrets(settings: &VaultSettings, database: &Database) -> Finding {
    let remedy = "set LONGSHORE_ENCRYPTION_KEY to <key id>:<base64 of 32 bytes>, the newest first";
    let vault = match Vault::new(&settings.encryption_key) {
        Ok(vault) => vault,
        Err(error) => return Finding::fail(SECRETS, reason(&error), remedy),
    };
    // without a time limit: a slow answer is no fault of the keys
    let opened = match rotation::examine(database, &vault).await {
        Ok(opened) => opened,
        Err(problem) => return Finding::fail(SECRETS, reason(&problem), remedy),
    };
    if opened.unreadable > 0 {
        let missing: Vec<_> = opened.missing.into_iter().collect();
        let found = format!("{} of {} cannot be opened", opened.unreadable, opened.sealed);
        if missing.is_empty() {
            Finding::fail(
                SECRETS,
                found,
                "a key has the right id but the wrong bytes, or the rows are damaged: restore the key, or store the secrets again",
            )
        } else {
            let missing = missing.join(", ");
            let remedy = format!("put the keys named {missing} back into LONGSHORE_ENCRYPTION_KEY");
            Finding::fail(SECRETS, format!("{found}; missing: {missing}"), remedy)
        }
    } else if opened.older > 0 {
        Finding::warn(
            SECRETS,
            format!("all {} can be opened, {} of them only with an older key", opened.sealed, opened.older),
            "run longshore-api rotate-keys before you remove that key",
        )
    } else {
        Finding::ok(SECRETS, format!("all {} can be opened", opened.sealed))
    }
}

/// Whether orders and stocks agree, and whether orders wait where their pieces are not.
pub(super) async fn examine_orders(database: &Database) -> Finding {
    // without a time limit: they read all open orders and all stocks
    let found = async {
        let broken = invariants::broken(&database.main).await?;
        let elsewhere =
            if broken.is_empty() { invariants::elsewhere(&database.main).await? } else { Vec::new() };
        Ok::<_, Problem>((broken, elsewhere))
    };
    match found.await {
        Ok((broken, elsewhere)) if broken.is_empty() && elsewhere.is_empty() => {
            Finding::ok(ORDERS, "orders and stocks agree")
        }
        Ok((broken, elsewhere)) if broken.is_empty() => Finding::warn(
            ORDERS,
            format!("orders wait where their pieces are not ({})", elsewhere.join("; ")),
            "move the pieces, or give the orders the other wms (PUT /api/expedition/{id} after a rollback)",
        ),
        Ok((broken, _)) => {
            let rules =
                broken.iter().map(|broken| format!("not so: {} ({})", broken.rule, broken.rows.join("; ")));
            let mut remedies: Vec<_> = broken.iter().map(|broken| broken.remedy).collect();
            remedies.dedup();
            Finding::fail(ORDERS, rules.collect::<Vec<_>>().join(". "), remedies.join(". "))
        }
        Err(problem) => Finding::fail(ORDERS, reason(&problem), "see the error"),
    }
}

/// Whether the object store takes, gives and forgets an object.
pub(super) async fn examine_objects(settings: &ObjectStoreSettings) -> Finding {
    let remedy = "check LONGSHORE_OBJECT_STORE, its write permissions, and the LONGSHORE_S3_… settings";
    let objects = match Objects::open(settings) {
        Ok(objects) => objects,
        Err(error) => return Finding::fail(OBJECTS, reason(&error), remedy),
    };
    match tokio::time::timeout(PATIENCE, objects.probe()).await {
        Ok(Ok(())) => Finding::ok(OBJECTS, format!("{} is writable", settings.object_store)),
        Ok(Err(error)) => Finding::fail(OBJECTS, reason(&error), remedy),
        Err(_) => Finding::fail(OBJECTS, format!("no answer within {} s", PATIENCE.as_secs()), remedy),
    }
}
