//! The owner's handle on a queue of this process: pause, concurrency, activity, end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::watch;

use super::config::MAX_CONCURRENCY;

/// What the owner wants of a queue; the consumer applies it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// No task starts.
    pub paused: bool,
    /// Tasks that may run at once.
    pub concurrency: usize,
}

/// A handle on one queue of this process. It outlives the streams that it controls, so a rebuilt worker keeps
/// its state.
#[derive(Clone, Debug)]
pub struct QueueControl(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    wish: watch::Sender<Wish>,
    /// Consumers whose loops have not ended.
    open: watch::Sender<usize>,
    counters: Counters,
}

/// Totals since the start; the first two are current values.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) in_flight: AtomicU64,
    pub(super) waiting: AtomicU64,
    pub(super) fetched: AtomicU64,
    pub(super) taken_over: AtomicU64,
    pub(super) acknowledged: AtomicU64,
    pub(super) given_back: AtomicU64,
    pub(super) dead: AtomicU64,
    pub(super) errors: AtomicU64,
}

/// What a queue of this process does now and has done since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Tasks that run now.
    pub in_flight: u64,
    /// Entries fetched but not started yet.
    pub waiting: u64,
    /// Entries fetched, including those taken over.
    pub fetched: u64,
    /// Entries taken over from consumers that went silent.
    pub taken_over: u64,
    /// Entries that have ended.
    pub acknowledged: u64,
    /// Entries given back unfinished by a stop or a pause.
    pub given_back: u64,
    /// Entries put aside.
    pub dead: u64,
    /// Errors of Redis.
    pub errors: u64,
}

impl QueueControl {
    /// A handle for a queue that starts unpaused, with a `concurrency` as in
    /// [`QueueControl::set_concurrency`].
    #[must_use]
    pub fn new(concurrency: usize) -> Self {
        let wish = Wish { paused: false, concurrency: bounded(concurrency) };
        let shared = Shared {
            wish: watch::Sender::new(wish),
            open: watch::Sender::new(0),
            counters: Counters::default(),
        };
        Self(Arc::new(shared))
    }

    /// Pauses or resumes. A paused queue fetches and starts nothing and gives back entries that have not
    /// started; running tasks continue.
    pub fn set_paused(&self, paused: bool) {
        self.change(|wish| wish.paused = paused);
    }

    /// Sets how many tasks may run at once, limited to 1..=[`MAX_CONCURRENCY`]. When lowered, running tasks
    /// continue, and none starts until fewer than the limit run.
    pub fn set_concurrency(&self, concurrency: usize) {
        self.change(|wish| wish.concurrency = bounded(concurrency));
    }

    /// Whether the queue is paused in this process.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.wish().paused
    }

    /// Tasks that may run at once.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.wish().concurrency
    }

    /// What this process does on the queue now, and has done so far.
    #[must_use]
    pub fn stats(&self) -> Activity {
        let counters = self.counters();
        Activity {
            in_flight: counters.in_flight.load(Relaxed),
            waiting: counters.waiting.load(Relaxed),
            fetched: counters.fetched.load(Relaxed),
            taken_over: counters.taken_over.load(Relaxed),
            acknowledged: counters.acknowledged.load(Relaxed),
            given_back: counters.given_back.load(Relaxed),
            dead: counters.dead.load(Relaxed),
            errors: counters.errors.load(Relaxed),
        }
    }

    /// Waits until every consumer of this handle has given back what it held, or its grace period is over.
    /// `main` waits for it after the workers have ended.
    pub async fn closed(&self) {
        // The sender is part of `self`, so this cannot fail.
        let _ = self.0.open.subscribe().wait_for(|open| *open == 0).await;
    }

    pub(super) fn wish(&self) -> Wish {
        *self.0.wish.borrow()
    }

    /// The wish and its changes, for a handler that must obey it, too.
    #[must_use]
    pub fn wishes(&self) -> watch::Receiver<Wish> {
        self.0.wish.subscribe()
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    pub(super) fn opened(&self) {
        self.0.open.send_modify(|open| *open += 1);
    }

    pub(super) fn ended(&self) {
        self.0.open.send_modify(|open| *open = open.saturating_sub(1));
    }

    fn change(&self, change: impl FnOnce(&mut Wish)) {
        self.0.wish.send_if_modified(|wish| {
            let before = *wish;
            change(wish);
            *wish != before
        });
    }
}

fn bounded(concurrency: usize) -> usize {
    concurrency.clamp(1, MAX_CONCURRENCY)
}
