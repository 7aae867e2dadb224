//! `expedition.sync`: takes over the orders that an e-shop sends (`docs/reference/orders.md#import`).

use longshore_domain::expedition::import::{self, Import, Row, read_row};
use longshore_domain::job::chunk::Claim;
use longshore_domain::job::inspection;
use longshore_domain::job::kind::{Shop, SyncExpeditions};
use longshore_domain::job::outcome::Fate;
use longshore_domain::job::row::ReadRows;
use longshore_kernel::change::Change;

use super::{Body, Done};

impl Body for SyncExpeditions {
    /// Executes a chunk: rows that break a rule become item errors, the others are created, changed or cancelled.
    async fn execute(&self, change: &mut Change<'_>, claim: &Claim, shop: Shop) -> Result<Done, Fate> {
        let rows = ReadRows::read(claim, read_row)?.noticing(Row::notices);
        let import = Import {
            origin: &claim.origin,
            organisation: shop.organisation,
            eshop: shop.eshop,
            send: self.send,
            accepted_at: inspection::accepted_at(change.connection(), claim.job).await?,
        };
        let applied = import::apply(change, import, &rows.good, &rows.indexes()).await?;
        Ok(Done::Items(rows.outcome(applied.changed, applied.refused)))
    }
}
