//! The owner's handle on a queue of this process: pause, concurrency, activity, end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::watch;

use super::config::MAX_CONCURRENCY;

/// What the owner wishes of a queue; the consumer obeys at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Nothing is begun.
    pub paused: bool,
    /// Tasks that may run at once.
    pub concurrency: usize,
}

/// Handle on one queue of this process. Outlives the streams that obey it, so a worker built again keeps the wish.
#[derive(Clone, Debug)]
pub struct QueueControl(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    wish: watch::Sender<Wish>,
    /// Consumers whose loops have not ended.
    open: watch::Sender<usize>,
    counters: Counters,
}

/// What has happened so far, and (the first two) what is so now.
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

/// What a queue of this process does and has done since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Tasks that run now.
    pub in_flight: u64,
    /// Entries fetched and not yet started.
    pub waiting: u64,
    /// Entries fetched, those taken over included.
    pub fetched: u64,
    /// Entries taken over from consumers that went silent.
    pub taken_over: u64,
    /// Entries that ended.
    pub acknowledged: u64,
    /// Entries given back unfinished by a stop or a pause.
    pub given_back: u64,
    /// Entries put aside.
    pub dead: u64,
    /// Errors of Redis that were survived.
    pub errors: u64,
}

impl QueueControl {
    /// A handle for a queue that starts unpaused. `concurrency` as in [`QueueControl::set_concurrency`].
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

    /// Pauses or resumes. Paused, nothing is fetched or started, and what waits unstarted goes back to the queue;
    /// what runs goes on.
    pub fn set_paused(&self, paused: bool) {
        self.change(|wish| wish.paused = paused);
    }

    /// Tasks that may run at once from now on, cut to 1..=[`MAX_CONCURRENCY`]. When it sinks, what runs goes on, and
    /// nothing starts until the number is below.
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

    /// Waits until every consumer under this handle has handed back what it held, or its grace is over. `main` waits
    /// for it after the workers have ended.
    pub async fn closed(&self) {
        // The sender lives in `self`, so this cannot fail.
        let _ = self.0.open.subscribe().wait_for(|open| *open == 0).await;
    }

    pub(super) fn wish(&self) -> Wish {
        *self.0.wish.borrow()
    }

    /// The wish as it changes, for a handler that has to obey it, too.
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
