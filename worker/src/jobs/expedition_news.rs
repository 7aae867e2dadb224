//! `expedition.news`: takes what a warehouse reports of orders (`docs/reference/orders.md#news`).

use longshore_domain::expedition::news::{self, Reporter, read_row};
use longshore_domain::job::chunk::Claim;
use longshore_domain::job::execution::Fate;
use longshore_domain::job::inspection;
use longshore_domain::job::kind::TakeNews;
use longshore_domain::partner::push::Push;
use longshore_kernel::change::Change;
use longshore_kernel::ids::OrganisationId;

use super::rows::ReadRows;
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
        let mut rows = ReadRows::read(claim, Push::News, |row| read_row(row, now))?;
        let reporter = Reporter {
            origin: &claim.origin,
            organisation,
            wms: self.wms,
            at: inspection::accepted_at(change.connection(), claim.job).await?,
        };
        let applied = news::apply(change, reporter, &rows.good).await?;
        for (position, violations) in applied.refused {
            let key = rows.good.get(position).map(|row| row.id.clone()).unwrap_or_default();
            rows.refuse(claim, position, &key, &violations);
        }
        Ok(Done::Items(rows.outcome(claim, applied.changed)))
    }
}
