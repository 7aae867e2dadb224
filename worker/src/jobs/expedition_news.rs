//! `expedition.news`: takes what a warehouse reports of orders (`docs/reference/orders.md#news`).

use longshore_domain::expedition::news::{self, Reporter, read_row};
use longshore_domain::job::chunk::Claim;
use longshore_domain::job::inspection;
use longshore_domain::job::kind::TakeNews;
use longshore_domain::job::outcome::Fate;
use longshore_domain::job::row::ReadRows;
use longshore_kernel::change::Change;
use longshore_kernel::ids::OrganisationId;

use super::{Body, Done};

impl Body for TakeNews {
    /// Executes a chunk: reports that break a rule, or that are not possible, become item errors; the others are taken.
    async fn execute(
        &self,
        change: &mut Change<'_>,
        claim: &Claim,
        organisation: OrganisationId,
    ) -> Result<Done, Fate> {
        let now = change.services().clock.now();
        let rows = ReadRows::read(claim, |row| read_row(row, now))?;
        let reporter = Reporter {
            origin: &claim.origin,
            organisation,
            wms: self.wms,
            at: inspection::accepted_at(change.connection(), claim.job).await?,
        };
        let applied = news::apply(change, reporter, &rows.good).await?;
        Ok(Done::Items(rows.outcome(applied.changed, applied.refused)))
    }
}
