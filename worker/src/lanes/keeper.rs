//! Keeps a lease alive, and knows until when it is valid.

use std::sync::Arc;
use std::time::Duration;

use longshore_domain::calling::{LEASE, Renewed};
use longshore_domain::webhook::lane::{self, Lease};
use longshore_kernel::database::Database;
use longshore_kernel::problem::Problem;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

/// How often a lease is renewed.
const RENEWAL: Duration = Duration::from_secs(1);

/// A lease counts as ended this long before its end, because a call that starts still has to leave the
/// process.
pub(super) const MARGIN: Duration = Duration::from_millis(500);

/// Until when a lease is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// At least until then, and longer if a renewal succeeds late.
    Until(Instant),
    /// Only for calls under way: the webhook was changed, and the next turn must use the change.
    ToEnd,
    /// It is lost for good.
    Lost,
}

/// The state of a lease, which can be read at any time.
#[derive(Clone, Debug)]
pub(crate) struct LeaseState(watch::Receiver<Hold>);

impl LeaseState {
    /// Whether a call may start now.
    pub(crate) fn holds(&self) -> bool {
        self.0.borrow().allows()
    }

    /// Until when calls may start, unless the lease is renewed; `None` if none may start any more.
    pub(super) fn until(&self) -> Option<Instant> {
        match *self.0.borrow() {
            Hold::Until(end) => Some(end),
            Hold::ToEnd | Hold::Lost => None,
        }
    }
}

impl Hold {
    fn allows(self) -> bool {
        matches!(self, Self::Until(end) if Instant::now() + MARGIN < end)
    }
}

/// Renews a lease until it is dropped.
#[derive(Debug)]
pub(crate) struct Keeper {
    standing: LeaseState,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Starts to renew a lease that is valid until `until`.
    pub(super) fn start(db: Database, lease: Arc<Lease>, until: Instant) -> Self {
        Self::keep(until, move |ending| {
            let (db, lease) = (db.clone(), Arc::clone(&lease));
            async move { lane::renew(&db, &lease, ending).await }
        })
    }

    /// The same for any lane: `renew` renews its lease, and says whether no more calls begin.
    pub(crate) fn keep<F, R>(until: Instant, renew: F) -> Self
    where
        F: Fn(bool) -> R + Send + 'static,
        R: Future<Output = Result<Renewed, Problem>> + Send,
    {
        let (tell, standing) = watch::channel(Hold::Until(until));
        let task = tokio::spawn(async move {
            // a lease that was renewed a while ago is renewed sooner, though not by a turn of a moment
            let first = until.checked_sub(LEASE.saturating_sub(RENEWAL)).unwrap_or(until);
            let mut ticks = tokio::time::interval_at(first.max(Instant::now() + MARGIN), RENEWAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut ending = false;
            loop {
                ticks.tick().await;
                let asked = Instant::now();
                match renew(ending).await {
                    // `ToEnd` is never taken back
                    Ok(Renewed::Yes) if !ending => tell.send_replace(Hold::Until(asked + LEASE)),
                    Ok(Renewed::Yes | Renewed::ToEnd) => {
                        let changed = tell.send_replace(Hold::ToEnd);
                        if !ending {
                            // from here on nothing begins; notify the turn at once
                            ending = true;
                            ticks.reset_immediately();
                        }
                        changed
                    }
                    Ok(Renewed::No) => {
                        tell.send_replace(Hold::Lost);
                        return;
                    }
                    Err(error) => {
                        // Postgres is away: the lease expires by itself, and nothing starts after that
                        tracing::debug!(%error, "a lease was not renewed");
                        continue;
                    }
                };
            }
        });
        Self { standing: LeaseState(standing), task }
    }

    /// Whether a call may start now.
    pub(crate) fn holds(&self) -> bool {
        self.standing.holds()
    }

    /// Runs `begin` if a call may start now. The state cannot change to [`Hold::ToEnd`] meanwhile: once a
    /// turn sees that state, nothing more begins.
    pub(crate) fn begin<T>(&self, begin: impl FnOnce() -> Option<T>) -> Option<T> {
        let hold = self.standing.0.borrow();
        if hold.allows() { begin() } else { None }
    }

    /// The state of the lease, for others.
    pub(crate) fn standing(&self) -> LeaseState {
        self.standing.clone()
    }

    /// Until when calls may start, unless the lease is renewed; `None` if none may start any more.
    pub(super) fn until(&self) -> Option<Instant> {
        self.standing.until()
    }

    /// Whether no call may start any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.standing.0.borrow(), Hold::ToEnd | Hold::Lost)
    }

    /// Waits for the next renewal or the loss.
    pub(crate) async fn changed(&mut self) {
        if self.standing.0.changed().await.is_err() {
            // the task ended after it reported the loss
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}
