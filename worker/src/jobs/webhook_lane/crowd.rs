//! How many calls a lane begins at once where many lanes do.
//!
//! A destination that answers at once keeps this process busy rather than waiting. A hundred lanes that each had as many
//! calls under way as they may would only queue for the same processors: sixteen hundred calls, each over a connection of its
//! own, deliver less than two hundred do, and hold twice the memory. So the lanes share a number of *young* calls evenly:
//! begun, not answered, and not under way for long.
//!
//! A destination that takes its time costs no processor. Its calls are young for a moment, then others begin beside them, up
//! to what the lane may have under way: however slow it is, and however many lanes there are, each has that many soon. A lane
//! that waits for nothing but slow answers is no part of the crowd, and leaves its share to the others. Only where the process
//! itself is behind, which it sees by timers that ring late, a moment says nothing of a destination.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Young calls of all lanes together; a few lanes may have what they want.
const MOST: usize = 256;

/// Young calls that a lane may have, however many there are: one to be sent while another is answered.
const LEAST: usize = 2;

/// For how long a call is young. Of calls that all take longer, `MOST` begin in that time, about as many as a process can
/// sign, send and record.
const YOUNG: Duration = Duration::from_millis(20);

/// A timer that rings later than this says that the process is behind; an idle one is a millisecond late.
const LATE: Duration = Duration::from_millis(2);

/// The lanes that get on; one for the process, cheap to clone.
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
    /// Of lanes that share so many young calls, each young for so long.
    #[must_use]
    pub fn new(most: usize, lasts: Duration) -> Self {
        Self { lanes: Arc::default(), most, lasts }
    }

    fn leave(&self, lane: &Own) {
        if lane.counted.swap(false, Ordering::Relaxed) {
            self.lanes.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A lane that begins to run.
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
    /// It is counted among the lanes that get on.
    counted: AtomicBool,
    young: AtomicUsize,
    aged: Notify,
}

impl Member {
    /// Whether it may begin one more call.
    pub(super) fn has_room(&self) -> bool {
        let lanes = self.crowd.lanes.load(Ordering::Relaxed).max(1);
        self.own.young.load(Ordering::Relaxed) < (self.crowd.most / lanes).max(LEAST)
    }

    /// A call begins.
    pub(super) fn begin(&self) -> Young {
        self.own.young.fetch_add(1, Ordering::Relaxed);
        if !self.own.counted.swap(true, Ordering::Relaxed) {
            self.crowd.lanes.fetch_add(1, Ordering::Relaxed);
        }
        Young { crowd: self.crowd.clone(), own: Arc::clone(&self.own) }
    }

    /// Waits until a call is no longer young although it has no answer.
    pub(super) async fn aged(&self) {
        self.own.aged.notified().await;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.crowd.leave(&self.own);
    }
}

/// A young call; no longer when dropped.
#[derive(Debug)]
pub(super) struct Young {
    crowd: Crowd,
    own: Arc<Own>,
}

impl Young {
    /// Lasts as long as the call, but not longer than it is young.
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
