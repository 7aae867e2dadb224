//! Rests: a look that took long is not repeated at once.
//!
//! While a transaction is open for long ([`horizon`](super::horizon)), Postgres keeps the dead entries of all rows that ended since it
//! began, and a look for what is live goes through them. What looks often then looks more seldom, and takes a bounded part of the time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

/// A look that takes longer is slow: usually it takes a few milliseconds.
const SLOW: Duration = Duration::from_millis(50);
/// A slow look is not repeated for this many times as long as it took …
const TIMES: u32 = 3;
/// … up to this.
const LONGEST: Duration = Duration::from_secs(3);

/// For how long a look is not repeated; nothing where it was quick.
#[must_use]
pub fn after(took: Duration) -> Option<Duration> {
    (took > SLOW).then(|| (took * TIMES).min(LONGEST))
}

/// The looks of a process that rest: the name of each, and whose share it looks at. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Rests(Arc<Mutex<HashMap<(&'static str, Uuid), Instant>>>);

impl Rests {
    /// Whether a look rests now.
    #[must_use]
    pub fn has(&self, look: &'static str, share: Uuid) -> bool {
        let rests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rests.get(&(look, share)).is_some_and(|until| Instant::now() < *until)
    }

    /// Notes how long a look took.
    pub fn note(&self, look: &'static str, share: Uuid, took: Duration) {
        if let Some(rest) = after(took) {
            let now = Instant::now();
            let mut rests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            rests.retain(|_, until| now < *until);
            rests.insert((look, share), now + rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_look_rests_for_a_multiple_of_its_time_and_no_other_one_does() {
        let (rests, share, other) = (Rests::default(), Uuid::nil(), Uuid::max());
        rests.note("turns", share, Duration::from_millis(5));
        assert!(!rests.has("turns", share));
        rests.note("turns", share, Duration::from_millis(200));
        assert!(rests.has("turns", share) && !rests.has("turns", other) && !rests.has("room", share));
        tokio::time::advance(Duration::from_millis(599)).await;
        assert!(rests.has("turns", share));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!rests.has("turns", share));
        rests.note("turns", share, Duration::from_mins(1));
        tokio::time::advance(LONGEST).await;
        assert!(!rests.has("turns", share));
    }
}
