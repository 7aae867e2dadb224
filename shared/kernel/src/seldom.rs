//! Repeated messages: at most one per interval is logged, with the number of those that were left out.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Subjects that are remembered. Beyond that, those that may be logged again are forgotten, and then all.
const SUBJECTS: usize = 10_000;

/// When something was last said of each subject.
#[derive(Debug)]
pub struct Seldom<K> {
    every: Duration,
    said: Mutex<HashMap<K, (Instant, u64)>>,
}

impl<K: Eq + Hash> Seldom<K> {
    /// Of each subject something is said once in so long.
    #[must_use]
    pub fn new(every: Duration) -> Self {
        Self { every, said: Mutex::default() }
    }

    /// Whether it is to be said now; and if so, how often it was left unsaid since the last time.
    pub fn say(&self, subject: K) -> Option<u64> {
        let now = Instant::now();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, unsaid)) = said.get_mut(&subject) {
            if now.duration_since(*last) < self.every {
                *unsaid += 1;
                return None;
            }
            *last = now;
            return Some(std::mem::take(unsaid));
        }
        if said.len() >= SUBJECTS {
            said.retain(|_, (last, _)| now.duration_since(*last) < self.every);
        }
        if said.len() >= SUBJECTS {
            said.clear();
        }
        said.insert(subject, (now, 0));
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_frequent_event_is_logged_rarely_with_the_number_of_omissions() {
        let seldom = Seldom::new(Duration::from_mins(1));
        assert_eq!(seldom.say("a"), Some(0));
        assert_eq!(seldom.say("a"), None);
        assert_eq!(seldom.say("b"), Some(0), "each subject by itself");
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(seldom.say("a"), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(seldom.say("a"), Some(2));
        assert_eq!(seldom.say("a"), None);
    }
}
