//! Records outcomes: those of all lanes of the process, several in one transaction.

use std::time::Duration;

use longshore_shared::expedition::handover::outcome::{self, Outcome};
use longshore_shared::kernel::cause::causes;
use longshore_shared::kernel::gather::Gather;
use longshore_shared::kernel::services::Services;

/// Outcomes of one statement.
const TOGETHER: usize = 500;

/// Transactions at the same time: the fewer, the more each does.
const AT_ONCE: usize = 1;

/// The pause while Postgres is away, and how often it is waited for: what is not recorded by then is called again.
const PAUSE: Duration = Duration::from_millis(500);
const PATIENCE: usize = 40;

/// Records outcomes; one for the process, cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    services: Services,
    gather: Gather<Outcome, bool>,
}

impl Recorder {
    pub(super) fn start(services: Services) -> Self {
        let recording = services.clone();
        let gather = Gather::start(TOGETHER, AT_ONCE, move |outcomes: Vec<Outcome>| {
            let services = recording.clone();
            async move { outcome::record(&services, &outcomes).await }
        });
        Self { services, gather }
    }

    /// Records an outcome; `false` if the lease was lost, or it could not be recorded: the call is made again later.
    pub(super) async fn record(&self, outcome: Outcome) -> bool {
        for _ in 0..PATIENCE {
            match self.gather.ask(outcome.clone()).await {
                Ok(is_live) => return is_live,
                Err(problem) if problem.is_unavailable() => tokio::time::sleep(PAUSE).await,
                Err(_) => break,
            }
        }
        // alone: another may be what is refused
        match outcome::record(&self.services, std::slice::from_ref(&outcome)).await {
            Ok(live) => live.first().copied().unwrap_or(false),
            Err(problem) => {
                tracing::error!(
                    expedition.id = %outcome.expedition, wms.id = %outcome.wms, error = %causes(&problem),
                    "an outcome of a hand-over was refused; its call will be made again"
                );
                false
            }
        }
    }
}
