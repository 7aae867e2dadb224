//! `expedition.send`, `.process`, `.cancel` and `.rollback`: operations on many orders
//! (`docs/reference/orders.md#bulk-operations`).

use longshore_domain::expedition::bulk;
use longshore_domain::expedition::command::Command;
use longshore_domain::job::chunk::{Claim, Count};
use longshore_domain::job::item_error::ItemError;
use longshore_domain::job::kind::{
    CancelExpeditions, ProcessExpeditions, RollBackExpeditions, SendExpeditions, Within,
};
use longshore_domain::job::outcome::{Fate, Outcome};
use longshore_domain::job::payload;
use longshore_kernel::change::Change;

use super::{Body, Done};

impl Body for SendExpeditions {
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, (): ()) -> Result<Done, Fate> {
        execute(change, claim, &self.0, &Command::Send { rebook: false }).await
    }
}

impl Body for ProcessExpeditions {
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, (): ()) -> Result<Done, Fate> {
        execute(change, claim, &self.0, &Command::Process).await
    }
}

impl Body for CancelExpeditions {
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, (): ()) -> Result<Done, Fate> {
        execute(change, claim, &self.0, &Command::Cancel { reason: None }).await
    }
}

impl Body for RollBackExpeditions {
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, (): ()) -> Result<Done, Fate> {
        execute(change, claim, &self.0, &Command::Rollback).await
    }
}

/// Executes a chunk: ids of no order in the scope, and orders of a wrong status, become item errors.
async fn execute(
    change: &mut Change<'_>,
    claim: &Claim,
    within: &Within,
    command: &Command,
) -> Result<Done, Fate> {
    let ids = payload::unpack_ids(&claim.payload)?;
    let (changed, refused) = bulk::execute(change, &claim.origin, within, &ids, command).await?;
    let errors: Vec<ItemError> = refused
        .into_iter()
        .filter_map(|refused| {
            let id = ids.get(refused.position)?;
            Some(ItemError {
                index: claim.index(refused.position),
                line: None,
                key: Some(id.to_string()),
                code: refused.code,
                message: refused.message,
                field: None,
                payload: id.get().as_bytes().to_vec(),
                notice: false,
            })
        })
        .collect();
    let changed = i32::try_from(changed).unwrap_or(i32::MAX);
    let failed = i32::try_from(errors.len()).unwrap_or(i32::MAX);
    let count = Count { changed, unchanged: claim.item_count - changed - failed, failed };
    Ok(Done::Items(Outcome { count, errors }))
}
