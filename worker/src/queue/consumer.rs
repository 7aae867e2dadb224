//! One consumer of one queue: the state that its loops share.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use longshore_kernel::cause::causes;
use longshore_kernel::queue::{Queue, QueueKeys, Queues};
use longshore_kernel::redis_server::RedisConnection;
use longshore_kernel::retry::Backoff;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::board::Board;
use super::config::Config;
use super::control::{QueueControl, Wish};
use super::entry::{Dead, DeadReason, Entry, Outcome};

/// The name of the step of reading in the log of failures.
pub(super) const FETCH: &str = "fetch";

/// Called for an entry that is put aside, until it succeeds.
pub(super) type OnDead = Box<dyn Fn(Dead) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The stream key and the outcome of an entry.
pub(super) type Report = (String, Outcome);

/// One consumer of one queue.
pub(super) struct Consumer {
    pub(super) config: Config,
    pub(super) queue: Queue,
    pub(super) keys: QueueKeys,
    /// Unique to each start of a process: a reused name would own the entries that its predecessor left
    /// pending.
    pub(super) name: String,
    pub(super) control: QueueControl,
    pub(super) queues: Queues,
    pub(super) on_dead: OnceLock<OnDead>,
    /// Woken when an entry waits for the handler.
    pub(super) waker: AtomicWaker,
    /// The client id of the connection while it blocks in a read, else 0.
    pub(super) blocked: AtomicI64,
    /// Cancelled when fetching must end; running tasks continue.
    pub(super) stopping: CancellationToken,
    /// Cancelled when no task runs any more: write all outcomes and end.
    pub(super) closing: CancellationToken,
    /// Cancelled when the loops have ended.
    pub(super) closed: CancellationToken,
    connection: RedisConnection,
    board: Mutex<Board>,
    reports: mpsc::UnboundedSender<Report>,
    pub(super) inbox: Mutex<Option<mpsc::UnboundedReceiver<Report>>>,
    /// Notified when a slot may be free or the operator's wish has changed.
    slots: Notify,
    pub(super) fetching_ended: CancellationToken,
}

impl Consumer {
    pub(super) fn new(control: QueueControl, queues: &Queues, queue: Queue, config: Config) -> Arc<Self> {
        let (reports, inbox) = mpsc::unbounded_channel();
        Arc::new(Self {
            config,
            queue,
            keys: queues.keys(queue),
            name: unique_name(),
            control,
            queues: queues.clone(),
            on_dead: OnceLock::new(),
            waker: AtomicWaker::new(),
            blocked: AtomicI64::new(0),
            stopping: CancellationToken::new(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
            connection: queues.connection(),
            board: Mutex::default(),
            reports,
            inbox: Mutex::new(Some(inbox)),
            slots: Notify::new(),
            fetching_ended: CancellationToken::new(),
        })
    }

    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn connection(&self) -> RedisConnection {
        self.connection.clone()
    }

    /// The next entry for the handler, if one may start now.
    pub(super) fn start_next(&self) -> Option<Entry> {
        let Wish { paused, concurrency } = self.control.wish();
        if paused {
            return None;
        }
        let entry = self.board().start_next(concurrency + self.config.ahead)?;
        let counters = self.control.counters();
        counters.waiting.fetch_sub(1, Relaxed);
        counters.in_flight.fetch_add(1, Relaxed);
        Some(entry)
    }

    /// Reports the outcome of an entry that ran, and frees its slot. Never fails, never waits.
    pub(super) fn finish(&self, key: String, outcome: Outcome) {
        // Reported first: when the board is drained, every outcome is in the inbox.
        self.report(key, outcome);
        self.end_slot();
    }

    /// Puts a started entry aside that cannot be passed to the handler.
    pub(super) fn refuse(self: &Arc<Self>, entry: &Entry, reason: DeadReason) {
        self.put_aside(entry, reason);
        self.end_slot();
    }

    fn end_slot(&self) {
        self.control.counters().in_flight.fetch_sub(1, Relaxed);
        let more = {
            let mut board = self.board();
            board.ended();
            board.waiting() > 0
        };
        self.slots.notify_one();
        if more {
            self.waker.wake();
        }
    }

    /// Waits until entries may be fetched, and returns how many; `None` once stopping.
    pub(super) async fn free_slots(&self) -> Option<usize> {
        loop {
            if self.stopping.is_cancelled() {
                return None;
            }
            let Wish { paused, concurrency } = self.control.wish();
            if paused {
                self.give_back_waiting();
            } else {
                let free = self.board().free(concurrency + self.config.ahead + self.config.prefetch);
                if free > 0 {
                    return Some(free.min(self.config.read_at_most.max(1)));
                }
            }
            self.succeeded(FETCH);
            tokio::select! {
                () = self.slots.notified() => {}
                () = self.stopping.cancelled() => {}
            }
        }
    }

    /// Holds and queues fetched entries, and puts aside those delivered too often.
    pub(super) fn accept(self: &Arc<Self>, entries: Vec<Entry>) {
        let counters = self.control.counters();
        counters.fetched.fetch_add(entries.len() as u64, Relaxed);
        let max = self.config.max_deliveries;
        let (over, good): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.deliveries > max);
        counters.waiting.fetch_add(good.len() as u64, Relaxed);
        {
            let mut board = self.board();
            board.hold(&over);
            board.hold(&good);
            board.line_up(good);
        }
        for entry in over {
            self.put_aside(&entry, DeadReason::TooManyDeliveries);
        }
        self.waker.wake();
    }

    /// Gives back entries that were fetched but not started.
    pub(super) fn give_back_waiting(&self) {
        let entries = self.board().take_waiting();
        self.control.counters().waiting.fetch_sub(entries.len() as u64, Relaxed);
        for entry in entries {
            self.report(entry.key, Outcome::GiveBack);
        }
    }

    /// Calls the owner of a dead entry until it succeeds, and then moves the entry. Until then the entry is
    /// held and kept alive; if this process ends first, the next one finds it again, still with too many
    /// deliveries.
    pub(super) fn put_aside(self: &Arc<Self>, entry: &Entry, reason: DeadReason) {
        let dead = Dead { id: entry.text(), reason, deliveries: entry.deliveries };
        warn!(
            queue.name = %self.queue, queue.id = dead.id, queue.deliveries = dead.deliveries, queue.reason = %reason,
            "putting an entry aside"
        );
        let consumer = Arc::clone(self);
        let key = entry.key.clone();
        tokio::spawn(async move {
            let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
            while let Some(on_dead) = consumer.on_dead.get() {
                let Err(error) = on_dead(dead.clone()).await else { break };
                warn!(queue.name = %consumer.queue, queue.id = dead.id, error, "the owner of a dead entry failed");
                tokio::select! {
                    () = sleep(backoff.next_delay()) => {}
                    () = consumer.closing.cancelled() => return,
                }
            }
            consumer.report(key, Outcome::Dead(reason));
        });
    }

    /// Notes an error of Redis. During an outage every loop of every queue fails, so only the first failure
    /// is a warning.
    pub(super) fn failed(&self, error: &redis::RedisError, step: &'static str) {
        self.control.counters().errors.fetch_add(1, Relaxed);
        if self.queues.outage().failed((self.queue, step)) {
            warn!(error = %causes(error), queue.step = step, "Redis failed; trying again until it is back");
        } else {
            debug!(error = %causes(error), queue.step = step, "Redis failed again");
        }
    }

    /// Notes that Redis did a step, or that the step is no longer needed.
    pub(super) fn succeeded(&self, step: &'static str) {
        if self.queues.outage().succeeded(&(self.queue, step)) {
            info!("Redis is back");
        }
    }

    pub(super) fn count(counter: &AtomicU64, by: usize) {
        counter.fetch_add(by as u64, Relaxed);
    }

    /// Applies a changed wish of the operator.
    pub(super) fn wish_changed(&self) {
        self.slots.notify_one();
        self.waker.wake();
    }

    pub(super) fn stop(&self) {
        self.stopping.cancel();
    }

    /// Closes when no task runs any more, or when running ones were dropped.
    pub(super) fn close(&self) {
        self.stopping.cancel();
        self.closing.cancel();
    }

    /// Whether it is closed and every outcome has been reported.
    pub(super) fn is_drained(&self) -> bool {
        self.fetching_ended.is_cancelled() && self.board().is_idle()
    }

    /// Whether the loops were ever started.
    pub(super) fn is_started(&self) -> bool {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    fn report(&self, key: String, outcome: Outcome) {
        // The receiver ends only after the grace period; entries reported later are taken over by others.
        let _ = self.reports.send((key, outcome));
    }
}

/// Host, process and a random number.
pub(crate) fn unique_name() -> String {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    // The standard library seeds every `RandomState` with system randomness, which is enough for a name.
    format!("{}-{}-{:016x}", host.trim(), std::process::id(), RandomState::new().hash_one(0))
}
