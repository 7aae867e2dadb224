//! Leases and releases many lanes with one statement.
//!
//! With ten thousand webhooks that have one delivery each, ten thousand turns begin and end, and a statement
//! for each would be the main cost of a delivery (`longshore_kernel::gather`).

use longshore_domain::webhook::lane::{self, Lease, Leased};
use longshore_kernel::gather::Gather;
use longshore_kernel::ids::WebhookId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Lanes of one statement.
const TOGETHER: usize = 256;

/// Statements at the same time: one uses the processor while the other waits for the disk or the network.
const AT_ONCE: usize = 2;

/// Leases and releases lanes; one for the process, cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Leasing {
    begin: Gather<WebhookId, Result<Option<Leased>, Problem>>,
    end: Gather<(WebhookId, i64), bool>,
}

impl Leasing {
    pub(super) fn start(services: &Services) -> Self {
        let (begins, ends) = (services.clone(), services.clone());
        Self {
            begin: Gather::start(TOGETHER, AT_ONCE, move |webhooks| begin(begins.clone(), webhooks)),
            end: Gather::start(TOGETHER, AT_ONCE, move |leases| end(ends.clone(), leases)),
        }
    }

    /// Leases a lane; `None` if it is not free.
    pub(super) async fn begin(&self, webhook: WebhookId) -> Result<Option<Leased>, Problem> {
        self.begin.ask(webhook).await?
    }

    /// Releases a lease, and returns whether more is due.
    pub(super) async fn end(&self, lease: &Lease) -> Result<bool, Problem> {
        self.end.ask((lease.webhook, lease.token)).await
    }
}

async fn begin(
    services: Services,
    webhooks: Vec<WebhookId>,
) -> Result<Vec<Result<Option<Leased>, Problem>>, Problem> {
    let mut leased = lane::lease(&services, &webhooks).await?;
    // a lane requested twice is leased once
    Ok(webhooks.iter().map(|webhook| leased.remove(webhook).transpose()).collect())
}

async fn end(services: Services, leases: Vec<(WebhookId, i64)>) -> Result<Vec<bool>, Problem> {
    let due = lane::release(&services.db, &leases).await?;
    Ok(leases.iter().map(|(webhook, _)| due.contains(webhook)).collect())
}
