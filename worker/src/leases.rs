//! Keeps the claims of this process alive: all of them in one statement a second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longshore_shared::job::chunk::{self, Claim, Held};
use longshore_shared::platform::cause::causes;
use longshore_shared::platform::services::Services;
use tokio_util::sync::CancellationToken;

/// A third of a lease: two renewals may be missed.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// The claims of this process.
#[derive(Clone, Debug)]
pub struct Leases {
    services: Arc<Services>,
    held: Arc<Mutex<HashMap<Held, Standing>>>,
}

/// How a claim stands.
#[derive(Debug)]
enum Standing {
    /// Somebody works on it, and is told here when it is lost.
    Kept(CancellationToken),
    /// Nobody does any more, and it has not come to its end.
    Abandoned,
}

/// A claim that is kept alive until this is dropped. Where that happens before its [end](Lease::end), it is handed back.
#[derive(Debug)]
pub struct Lease {
    leases: Leases,
    claim: Held,
    /// Cancelled when the claim does not hold any more: whatever is done then changes nothing.
    pub lost: CancellationToken,
}

impl Leases {
    /// Holds nothing yet.
    #[must_use]
    pub fn new(services: Arc<Services>) -> Self {
        Self { services, held: Arc::default() }
    }

    /// Keeps a claim alive.
    #[must_use]
    pub fn hold(&self, claim: &Claim) -> Lease {
        let (claim, lost) = (claim.held(), CancellationToken::new());
        self.lock().insert(claim, Standing::Kept(lost.clone()));
        Lease { leases: self.clone(), claim, lost }
    }

    /// Renews what is held, and hands back what was abandoned, until it is dropped itself.
    pub async fn keep_alive(self) {
        let mut ticks = tokio::time::interval(RENEW_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            ticks.tick().await;
            self.give_back(|standing| matches!(standing, Standing::Abandoned)).await;
            let held: Vec<Held> = self.lock().keys().copied().collect();
            if held.is_empty() {
                continue;
            }
            match chunk::renew(&self.services.db.main, &held).await {
                Ok(alive) => {
                    if std::mem::take(&mut failing) {
                        tracing::info!("leases are renewed again");
                    }
                    let claims = self.lock();
                    for lost in held.iter().filter(|h| !alive.contains(h)) {
                        if let Some(Standing::Kept(token)) = claims.get(lost) {
                            token.cancel();
                        }
                    }
                }
                // said once: the next ones fail for the same reason
                Err(error) if !std::mem::replace(&mut failing, true) => {
                    let leases = held.len();
                    tracing::warn!(error = %causes(&error), leases, "leases were not renewed, trying again");
                }
                Err(_) => {}
            }
        }
    }

    /// Hands back what is still held when the process ends before its work did.
    pub async fn hand_back(&self) {
        self.give_back(|_| true).await;
    }

    async fn give_back(&self, which: impl Fn(&Standing) -> bool) {
        let given: Vec<Held> =
            self.lock().extract_if(|_, standing| which(standing)).map(|(claim, _)| claim).collect();
        for claim in given {
            if let Err(error) = chunk::postpone(&self.services.db.main, claim, Duration::ZERO, None).await {
                tracing::warn!(job.id = %claim.job, chunk = claim.number, error = %causes(&error), "a lease was not handed back; it runs out");
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Held, Standing>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Ends the keeping: the claim has come to its end.
    pub fn end(self) {
        self.leases.lock().remove(&self.claim);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // it is there unless it has ended, or was handed back
        if let Some(standing) = self.leases.lock().get_mut(&self.claim) {
            *standing = Standing::Abandoned;
        }
    }
}
