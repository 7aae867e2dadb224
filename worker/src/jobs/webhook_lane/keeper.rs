//! Keeps a lease alive, and knows until when it holds.

use std::sync::Arc;
use std::time::Duration;

use longshore_shared::platform::database::Database;
use longshore_shared::webhook::lane::{self, Lease, Renewed};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

/// How often a lease is renewed.
const RENEWAL: Duration = Duration::from_secs(1);

/// Before its end by this much, a lease counts as ended: what is started has to leave the process, too.
const MARGIN: Duration = Duration::from_millis(500);

/// Until when a lease holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// It holds until then, at least; and longer when a renewal succeeds late.
    Until(Instant),
    /// It is kept for what is under way: the webhook was changed, and the next turn goes by that.
    ToEnd,
    /// It is lost for good.
    Lost,
}

/// How a lease stands, to be asked at any time.
#[derive(Clone, Debug)]
pub(super) struct Standing(watch::Receiver<Hold>);

impl Standing {
    /// Whether something may be started now.
    pub(super) fn holds(&self) -> bool {
        self.0.borrow().allows()
    }
}

impl Hold {
    fn allows(self) -> bool {
        matches!(self, Self::Until(end) if Instant::now() + MARGIN < end)
    }
}

/// A lease that is renewed as long as this lives.
#[derive(Debug)]
pub(super) struct Keeper {
    standing: Standing,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Starts to renew a lease that holds until a moment.
    pub(super) fn start(db: Database, lease: Arc<Lease>, until: Instant) -> Self {
        let (tell, standing) = watch::channel(Hold::Until(until));
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval_at(Instant::now() + RENEWAL, RENEWAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut ending = false;
            loop {
                ticks.tick().await;
                let asked = Instant::now();
                match lane::renew(&db, &lease, ending).await {
                    // what was told once stays told
                    Ok(Renewed::Yes) if !ending => tell.send_replace(Hold::Until(asked + lane::LEASE)),
                    Ok(Renewed::Yes | Renewed::ToEnd) => {
                        let told = tell.send_replace(Hold::ToEnd);
                        if !ending {
                            // nothing begins from here on; whoever waits for that hears it at once
                            ending = true;
                            ticks.reset_immediately();
                        }
                        told
                    }
                    Ok(Renewed::No) => {
                        tell.send_replace(Hold::Lost);
                        return;
                    }
                    Err(error) => {
                        // Postgres is away: the lease runs out by itself, and nothing is started after it
                        tracing::debug!(webhook.id = %lease.webhook, %error, "a lease was not renewed");
                        continue;
                    }
                };
            }
        });
        Self { standing: Standing(standing), task }
    }

    /// Whether something may be started now.
    pub(super) fn holds(&self) -> bool {
        self.standing.holds()
    }

    /// Begins something, if it may be started now. The lease is not told to end in the middle of that: whoever hears that it
    /// ends knows that nothing begins.
    pub(super) fn begin<T>(&self, begin: impl FnOnce() -> Option<T>) -> Option<T> {
        let hold = self.standing.0.borrow();
        if hold.allows() { begin() } else { None }
    }

    /// How the lease stands, also for others.
    pub(super) fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Whether nothing may be started any more.
    pub(super) fn is_over(&self) -> bool {
        matches!(*self.standing.0.borrow(), Hold::ToEnd | Hold::Lost)
    }

    /// Waits for the next renewal, or the loss.
    pub(super) async fn changed(&mut self) {
        if self.standing.0.changed().await.is_err() {
            // the task has ended with the loss, which was told
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}
