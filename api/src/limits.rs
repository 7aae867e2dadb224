//! What one caller may take of a process: a rate, streams, time, bytes. [`crate::middleware`] holds callers to it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longshore_shared::platform::config::LimitSettings;
use longshore_shared::platform::queue::{QueueError, Queues};
use longshore_shared::platform::rate::{Rate, RateLimiter};
use longshore_shared::platform::share::Ledger;
use uuid::Uuid;

use crate::extract::Stall;

/// The limits of a process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Requests of an account, over all processes together; absent: any number.
    pub rate: Option<RateLimiter>,
    /// Streams of an account in this process.
    pub streams: Streams,
    /// Within how long a request must be answered.
    pub request: Duration,
    /// For how long a client may send next to nothing of a body.
    pub stall: Stall,
    /// Within how long a client must have sent its headers.
    pub headers: Duration,
    /// For how long a client may read nothing of an answer.
    pub reader: Duration,
    /// Bytes of bodies that are read, or acted upon.
    pub bodies: Ledger,
    /// Bytes of answers that are not read yet.
    pub answers: Ledger,
}

/// For how long a client may read nothing of an answer.
const READER: Duration = Duration::from_secs(30);

const MIB: u64 = 1024 * 1024;

fn bodies(mib: u32) -> Ledger {
    Ledger::new("bytes for bodies", u64::from(mib) * MIB, 1)
}

fn answers(mib: u32) -> Ledger {
    Ledger::new("bytes for answers", u64::from(mib) * MIB, 1)
}

/// As [`LimitSettings`] has them, without a rate.
impl Default for Limits {
    fn default() -> Self {
        Self {
            rate: None,
            streams: Streams::new(16),
            request: Duration::from_mins(2),
            stall: Stall::default(),
            headers: Duration::from_secs(15),
            reader: READER,
            bodies: bodies(64),
            answers: answers(16),
        }
    }
}

impl Limits {
    /// By the settings; must be called within a tokio runtime.
    pub fn new(settings: &LimitSettings, queues: &Queues) -> Result<Self, QueueError> {
        let patience = Duration::from_millis(settings.rate_limit_patience_ms);
        let rate = Rate::new(settings.rate_limit, settings.rate_limit_burst)
            .map(|rate| RateLimiter::new(queues, rate, patience))
            .transpose()?;
        Ok(Self {
            rate,
            streams: Streams::new(settings.token_streams),
            request: Duration::from_secs(settings.request_seconds),
            stall: Stall(Duration::from_secs(settings.body_stall_seconds)),
            headers: Duration::from_secs(settings.header_seconds),
            reader: READER,
            bodies: bodies(settings.body_mib),
            answers: answers(settings.answer_mib),
        })
    }
}

/// The streams that are open, by account. They are counted in this process: what they take (a connection to Postgres, a
/// buffer) is this process's too.
#[derive(Clone, Debug)]
pub struct Streams {
    most: u32,
    open: Arc<Mutex<HashMap<Uuid, u32>>>,
}

impl Streams {
    /// At most so many an account; 0: any number.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self { most, open: Arc::default() }
    }

    /// How many an account may have open; 0: any number.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Opens one, until the guard is dropped; `None` when the account has as many as it may.
    #[must_use]
    pub fn open(&self, account: Uuid) -> Option<OpenStream> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(account).or_default();
        if self.most > 0 && *count >= self.most {
            return None;
        }
        *count += 1;
        drop(open);
        Some(OpenStream { account, open: Arc::clone(&self.open) })
    }
}

/// A stream that counts.
#[derive(Debug)]
pub struct OpenStream {
    account: Uuid,
    open: Arc<Mutex<HashMap<Uuid, u32>>>,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = open.entry(self.account) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_counted_by_account_and_given_back_when_they_end() {
        let streams = Streams::new(2);
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let first = streams.open(one);
        let second = streams.open(one);
        assert!(first.is_some() && second.is_some());
        assert!(streams.open(one).is_none());
        assert!(streams.open(other).is_some());
        drop(first);
        let third = streams.open(one);
        assert!(third.is_some() && streams.open(one).is_none());
        drop((second, third));
        assert!(streams.open.lock().unwrap().is_empty(), "who has none open is forgotten");
    }

    #[test]
    fn a_limit_of_zero_is_none() {
        let streams = Streams::new(0);
        let open: Vec<_> = (0..100).map(|_| streams.open(Uuid::nil())).collect();
        assert!(open.iter().all(Option::is_some));
    }
}
