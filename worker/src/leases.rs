//! Keeps the claims of this process alive, all of them in one statement per second, by a connection for which it does not compete
//! with the work.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longshore_domain::job::chunk::{self, Claim, Held};
use longshore_kernel::cause::causes;
use longshore_kernel::services::Services;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A third of a lease: two renewals may be missed.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// How long a process that ends tries to give its claims back.
const GRACE: Duration = Duration::from_secs(5);

/// The claims of this process.
#[derive(Clone, Debug)]
pub struct Leases {
    services: Arc<Services>,
    held: Arc<Mutex<HashMap<Held, ClaimState>>>,
    giving_back: TaskTracker,
}

/// The state of a claim.
#[derive(Debug)]
enum ClaimState {
    /// In use; the token is cancelled when the claim is lost.
    Kept(CancellationToken),
    /// Dropped before it ended.
    Abandoned,
}

/// A claim that is kept alive until this is dropped. Dropping it before its [end](Lease::end) gives the claim
/// back.
#[derive(Debug)]
pub struct Lease {
    leases: Leases,
    claim: Held,
    /// Cancelled when the claim is lost: changes under it then have no effect.
    pub lost: CancellationToken,
}

impl Leases {
    /// Creates it without claims.
    #[must_use]
    pub fn new(services: Arc<Services>) -> Self {
        Self { services, held: Arc::default(), giving_back: TaskTracker::new() }
    }

    /// Keeps a claim alive.
    #[must_use]
    pub fn hold(&self, claim: &Claim) -> Lease {
        let (claim, lost) = (claim.held(), CancellationToken::new());
        self.lock().insert(claim, ClaimState::Kept(lost.clone()));
        Lease { leases: self.clone(), claim, lost }
    }

    /// Renews held claims and gives abandoned ones back, until the future is dropped.
    pub async fn keep_alive(self) {
        let mut ticks = tokio::time::interval(RENEW_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            ticks.tick().await;
            self.give_back(|standing| matches!(standing, ClaimState::Abandoned));
            let held: Vec<Held> = self.lock().keys().copied().collect();
            if held.is_empty() {
                continue;
            }
            match chunk::renew(&self.services.db.leases, &held).await {
                Ok(alive) => {
                    if std::mem::take(&mut failing) {
                        tracing::info!("leases are renewed again");
                    }
                    let claims = self.lock();
                    for lost in held.iter().filter(|h| !alive.contains(h)) {
                        if let Some(ClaimState::Kept(token)) = claims.get(lost) {
                            token.cancel();
                        }
                    }
                }
                // logged once: the next ones fail for the same reason
                Err(error) if !std::mem::replace(&mut failing, true) => {
                    let leases = held.len();
                    tracing::warn!(error = %causes(&error), leases, "leases were not renewed; trying again");
                }
                Err(_) => {}
            }
        }
    }

    /// Gives back all held claims when the process ends before its work does.
    pub async fn hand_back(&self) {
        self.give_back(|_| true);
        self.giving_back.close();
        if tokio::time::timeout(GRACE, self.giving_back.wait()).await.is_err() {
            let leases = self.giving_back.len();
            tracing::warn!(leases, "leases were not released in time; they will expire");
        }
    }

    /// Gives claims back, each by itself: one whose row is locked delays neither the others nor the renewals.
    fn give_back(&self, which: impl Fn(&ClaimState) -> bool) {
        let given: Vec<Held> =
            self.lock().extract_if(|_, standing| which(standing)).map(|(claim, _)| claim).collect();
        for claim in given {
            let services = Arc::clone(&self.services);
            self.giving_back.spawn(async move {
                if let Err(error) = chunk::postpone(&services.db.main, claim, Duration::ZERO, None).await {
                    tracing::warn!(job.id = %claim.job, chunk = claim.number, error = %causes(&error), "a lease was not released; it will expire");
                }
            });
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Held, ClaimState>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Stops keeping the claim, which has ended.
    pub fn end(self) {
        self.leases.lock().remove(&self.claim);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // absent if it has ended or was given back
        if let Some(standing) = self.leases.lock().get_mut(&self.claim) {
            *standing = ClaimState::Abandoned;
        }
    }
}
