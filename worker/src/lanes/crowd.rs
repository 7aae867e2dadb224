//! Limits how many calls a lane begins at once when many lanes are busy.
//!
//! A destination that answers at once keeps this process busy rather than waiting. If a hundred lanes each
//! had their maximum of calls under way, these would only queue for the same processors: sixteen hundred
//! calls, each on its own connection, deliver less than two hundred do, and take twice the memory. So the
//! lanes share a number of *young* calls evenly. A call is young from its beginning until it is answered or
//! has been under way for [`YOUNG`].
//!
//! A slow destination costs no processor time. Its calls stop being young after a moment and others begin
//! beside them, up to the lane's own limit: however slow the destination is, and however many lanes there
//! are, each lane reaches that limit soon. A lane that only waits for slow answers leaves the crowd and its
//! share to the others. While the process itself is behind, which late timers show, calls stay young, since
//! their age then says nothing about the destination.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Young calls of all lanes together; a few lanes may have as many as they want.
const MOST: usize = 256;

/// Young calls that a lane may always have: one is sent while another is answered.
const LEAST: usize = 2;

/// How long a call is young. If all calls take longer, [`MOST`] begin in that time, about as many as a
/// process can sign, send and record.
const YOUNG: Duration = Duration::from_millis(20);

/// A timer that fires later than this shows that the process is behind; in an idle one it is a millisecond
/// late.
const LATE: Duration = Duration::from_millis(2);

/// The lanes that make progress; one for the process, cheap to clone.
#[derive(Clone, Debug)]
pub struct Crowd {
    lanes: Arc<AtomicUsize>,
    most: usize,
    lasts: Duration,
}

impl Default for Crowd {
    fn default() -> Self {
        Self::new(MOST, YOUNG)
    }
}

impl Crowd {
    /// Creates a crowd whose lanes share `most` young calls, each young for `lasts`.
    #[must_use]
    pub fn new(most: usize, lasts: Duration) -> Self {
        Self { lanes: Arc::default(), most, lasts }
    }

    fn leave(&self, lane: &Own) {
        if lane.counted.swap(false, Ordering::Relaxed) {
            self.lanes.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Adds a lane that begins to run.
    pub(super) fn join(&self) -> Member {
        Member { crowd: self.clone(), own: Arc::default() }
    }
}

/// A lane that runs.
#[derive(Debug)]
pub(super) struct Member {
    crowd: Crowd,
    own: Arc<Own>,
}

/// The young calls of a lane.
#[derive(Debug, Default)]
struct Own {
    /// Whether the lane counts among those that make progress.
    counted: AtomicBool,
    young: AtomicUsize,
    aged: Notify,
}

impl Member {
    /// Whether the lane may begin one more call.
    pub(super) fn has_room(&self) -> bool {
        let lanes = self.crowd.lanes.load(Ordering::Relaxed).max(1);
        self.own.young.load(Ordering::Relaxed) < (self.crowd.most / lanes).max(LEAST)
    }

    /// Begins a call.
    pub(super) fn begin(&self) -> Young {
        self.own.young.fetch_add(1, Ordering::Relaxed);
        if !self.own.counted.swap(true, Ordering::Relaxed) {
            self.crowd.lanes.fetch_add(1, Ordering::Relaxed);
        }
        Young { crowd: self.crowd.clone(), own: Arc::clone(&self.own) }
    }

    /// Waits until a call without an answer is no longer young.
    pub(super) async fn aged(&self) {
        self.own.aged.notified().await;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.crowd.leave(&self.own);
    }
}

/// A young call; dropping it ends that.
#[derive(Debug)]
pub(super) struct Young {
    crowd: Crowd,
    own: Arc<Own>,
}

impl Young {
    /// Runs the call, and drops `self` when the call is no longer young.
    pub(super) async fn accompany<F: Future>(self, call: F) -> F::Output {
        let mut call = pin!(call);
        let mut late = true;
        while late {
            let end = Instant::now() + self.crowd.lasts;
            if let Ok(answered) = timeout_at(end, &mut call).await {
                return answered;
            }
            late = end.elapsed() > LATE;
        }
        let (crowd, own) = (self.crowd.clone(), Arc::clone(&self.own));
        drop(self);
        if own.young.load(Ordering::Relaxed) == 0 {
            crowd.leave(&own);
        }
        own.aged.notify_one();
        call.await
    }
}

impl Drop for Young {
    fn drop(&mut self) {
        self.own.young.fetch_sub(1, Ordering::Relaxed);
    }
}
