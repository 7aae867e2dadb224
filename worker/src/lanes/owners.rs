//! Finds the organisations of many webhooks at once and caches them: a webhook never changes its
//! organisation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_domain::webhook::lane;
use longshore_kernel::gather::Gather;
use longshore_kernel::ids::{OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Lanes of one statement.
const TOGETHER: usize = 256;

/// Statements at the same time.
const AT_ONCE: usize = 2;

/// Webhooks in the cache, about four megabytes. When it is full, it is emptied.
const REMEMBERED: usize = 50_000;

/// The organisations of webhooks; one for the process, cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Owners {
    known: Arc<Mutex<HashMap<WebhookId, OrganisationId>>>,
    ask: Gather<WebhookId, Option<OrganisationId>>,
}

impl Owners {
    pub(super) fn start(services: &Services) -> Self {
        let services = services.clone();
        let ask = Gather::start(TOGETHER, AT_ONCE, move |webhooks: Vec<WebhookId>| {
            let db = services.db.clone();
            async move {
                let owners = lane::owners(&db, &webhooks).await?;
                Ok(webhooks.iter().map(|webhook| owners.get(webhook).copied()).collect())
            }
        });
        Self { known: Arc::default(), ask }
    }

    /// The organisation of a webhook; `None` if the webhook no longer exists.
    pub(super) async fn of(&self, webhook: WebhookId) -> Result<Option<OrganisationId>, Problem> {
        if let Some(organisation) = self.known().get(&webhook) {
            return Ok(Some(*organisation));
        }
        let organisation = self.ask.ask(webhook).await?;
        if let Some(organisation) = organisation {
            let mut known = self.known();
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(webhook, organisation);
        }
        Ok(organisation)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<WebhookId, OrganisationId>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
