//! Records outcomes: those of all lanes of the process, several in one transaction. None waits for the lock of another: what is
//! locked is recorded again, with what else its organisation has, until the lock is free.

use std::sync::Arc;
use std::time::Duration;

use longshore_domain::expedition::handover::outcome::{self, Outcome, Recorded};
use longshore_kernel::cause::causes;
use longshore_kernel::gather::{Gather, GatherBy};
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::services::Services;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Outcomes of one statement.
const TOGETHER: usize = 500;

/// Transactions for all organisations at the same time: the fewer, the more each does.
const AT_ONCE: usize = 2;

/// Transactions at the same time for what was locked: they wait for locks, and keep their connections meanwhile.
const AGAIN_AT_ONCE: usize = 4;

/// The first and the longest pause before an outcome is recorded again.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// For how long it is tried while Postgres is away, and while a lock is held. Its turn keeps the lane meanwhile, so a lock that
/// lasts must not keep it from the other orders of the wms: what is not recorded by then is called again.
const PATIENCE: Duration = Duration::from_secs(20);
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// Records outcomes; one for the process, cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    services: Services,
    together: Gather<Outcome, Recorded>,
    /// What was locked, by organisation.
    again: GatherBy<OrganisationId, Outcome, Recorded>,
}

impl Recorder {
    pub(super) fn start(services: Services) -> Self {
        let recording = services.clone();
        let together = Gather::start(TOGETHER, AT_ONCE, move |outcomes: Vec<Outcome>| {
            let services = recording.clone();
            async move { outcome::record(&services, &outcomes).await }
        });
        let (recording, slots) = (services.clone(), Arc::new(Semaphore::new(AGAIN_AT_ONCE)));
        let again = GatherBy::new(move |_: &OrganisationId| {
            let (services, slots) = (recording.clone(), Arc::clone(&slots));
            Gather::start(TOGETHER, 1, move |outcomes: Vec<Outcome>| {
                let (services, slots) = (services.clone(), Arc::clone(&slots));
                async move {
                    // never closed
                    let _slot = slots.acquire().await;
                    outcome::record_again(&services, &outcomes).await
                }
            })
        });
        Self { services, together, again }
    }

    /// Records an outcome of an organisation; `false` if the lease was lost, or it could not be recorded: the call is made again
    /// later.
    pub(super) async fn record(&self, organisation: OrganisationId, outcome: Outcome) -> bool {
        let began = Instant::now();
        let (mut pause, mut was_locked) = (PAUSE, false);
        loop {
            let asked = if was_locked {
                self.again.ask(&organisation, outcome.clone()).await
            } else {
                self.together.ask(outcome.clone()).await
            };
            let patience = match asked {
                Ok(Recorded::Yes) => return true,
                Ok(Recorded::Stale) => return false,
                Ok(Recorded::Locked) => {
                    was_locked = true;
                    LOCK_PATIENCE
                }
                Err(problem) if problem.is_unavailable() => PATIENCE,
                // another may be what is refused
                Err(_) => return self.alone(outcome).await,
            };
            if began.elapsed() + pause > patience {
                return self.alone(outcome).await;
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    async fn alone(&self, outcome: Outcome) -> bool {
        match outcome::record_again(&self.services, std::slice::from_ref(&outcome)).await {
            Ok(recorded) if recorded == [Recorded::Locked] => {
                tracing::warn!(
                    expedition.id = %outcome.expedition, wms.id = %outcome.wms,
                    "an outcome of a hand-over was not recorded in full, since a lock was held for long; its call may be made again"
                );
                false
            }
            Ok(recorded) => recorded == [Recorded::Yes],
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
