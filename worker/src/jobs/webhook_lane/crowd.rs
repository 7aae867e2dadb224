//! How many calls a lane begins at once where many lanes do.
//!
//! A destination that answers at once keeps this process busy rather than waiting. A hundred lanes that each had as many
//! calls under way as they may would only queue for the same processors: sixteen hundred calls, each over a connection of its
//! own, deliver less than two hundred do, and hold twice the memory. So the lanes that run share a number of *young* calls:
//! begun, not answered, and not under way for long.
//!
//! A destination that takes its time costs no processor. Its calls are young for a moment, then others begin beside them, up
//! to what the lane may have under way: however slow it is, and however many lanes there are, each has that many soon. Only
//! where the process itself is behind, which it sees by timers that ring late, a moment says nothing of a destination.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// The lanes that run, as far as their calls are concerned; one for the process, cheap to clone.
#[derive(Clone, Debug)]
pub struct Crowd {
    lanes: Arc<AtomicUsize>,
    most: usize,
    young: Duration,
}

impl Default for Crowd {
    fn default() -> Self {
        Self::new(MOST, YOUNG)
    }
}

impl Crowd {
    /// Of lanes that share so many young calls, each young for so long.
    #[must_use]
    pub fn new(most: usize, young: Duration) -> Self {
        Self { lanes: Arc::default(), most, young }
    }

    /// A lane begins to run.
    pub(super) fn join(&self) -> Member {
        self.lanes.fetch_add(1, Ordering::Relaxed);
        Member { crowd: self.clone(), calls: Arc::default() }
    }
}

/// A lane that runs.
#[derive(Debug)]
pub(super) struct Member {
    crowd: Crowd,
    calls: Arc<Calls>,
}

/// The young calls of a lane.
#[derive(Debug, Default)]
struct Calls {
    young: AtomicUsize,
    aged: Notify,
}

impl Member {
    /// How many young calls it may have.
    pub(super) fn share(&self) -> usize {
        (self.crowd.most / self.crowd.lanes.load(Ordering::Relaxed).max(1)).max(LEAST)
    }

    /// Whether it may begin one more.
    pub(super) fn has_room(&self) -> bool {
        self.calls.young.load(Ordering::Relaxed) < self.share()
    }

    /// A call begins.
    pub(super) fn begin(&self) -> Young {
        self.calls.young.fetch_add(1, Ordering::Relaxed);
        Young { calls: Arc::clone(&self.calls), lasts: self.crowd.young }
    }

    /// Waits until a call is no longer young although it has no answer.
    pub(super) async fn aged(&self) {
        self.calls.aged.notified().await;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.crowd.lanes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A young call; no longer when dropped.
#[derive(Debug)]
pub(super) struct Young {
    calls: Arc<Calls>,
    lasts: Duration,
}

impl Young {
    /// Lasts as long as the call, but not longer than it is young.
    pub(super) async fn accompany<F: Future>(self, call: F) -> F::Output {
        let mut call = pin!(call);
        let mut late = true;
        while late {
            let end = Instant::now() + self.lasts;
            if let Ok(answered) = timeout_at(end, &mut call).await {
                return answered;
            }
            late = end.elapsed() > LATE;
        }
        let calls = Arc::clone(&self.calls);
        drop(self);
        calls.aged.notify_one();
        call.await
    }
}

impl Drop for Young {
    fn drop(&mut self) {
        self.calls.young.fetch_sub(1, Ordering::Relaxed);
    }
}
