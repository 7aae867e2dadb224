//! The limits of one caller: rate, streams, time, bytes. [`crate::middleware`] enforces them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Extensions;
use longshore_kernel::config::LimitSettings;
use longshore_kernel::metrics::Metrics;
use longshore_kernel::problem::{Problem, RATE_LIMITED};
use longshore_kernel::queue::Queues;
use longshore_kernel::rate::{Allowance, Rate, RateLimiter};
use longshore_kernel::share::Ledger;
use longshore_kernel::share::pace::Pace;
use uuid::Uuid;

/// The limits of a process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Requests of an account, over all processes together; `None` means unlimited.
    pub rate: Option<RateLimiter>,
    /// Streams of an account in this process.
    pub streams: Streams,
    /// The time within which a request must be answered.
    pub request: Duration,
    /// How long a client may send almost nothing of a body.
    pub stall: Stall,
    /// Connections of clients.
    pub connections: u32,
    /// Connections of an address.
    pub address_connections: u32,
    /// The time within which a client must send its headers.
    pub headers: Duration,
    /// How long a client may read nothing of an answer.
    pub reader: Duration,
    /// Bytes of request bodies, and of large heads, in memory.
    pub bodies: Ledger,
    /// Bytes of answers that are not read yet.
    pub answers: Ledger,
    /// Processor time.
    pub pace: Pace,
}

/// How long a client may send almost nothing. [`crate::middleware`] adds it to the extensions of every
/// request.
#[derive(Clone, Copy, Debug)]
pub struct Stall(pub Duration);

impl Stall {
    /// The limit of a request; the default if no layer set one.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or_default()
    }
}

impl Default for Stall {
    fn default() -> Self {
        Self(Duration::from_secs(30))
    }
}

/// How long a client may read nothing of an answer.
const READER: Duration = Duration::from_secs(30);

const MIB: u64 = 1024 * 1024;

fn bodies(mib: u32) -> Ledger {
    Ledger::new("memory for request bodies", u64::from(mib) * MIB, 1)
}

fn answers(mib: u32) -> Ledger {
    Ledger::new("memory for unread responses", u64::from(mib) * MIB, 1)
}

/// The defaults of [`LimitSettings`], without a rate.
impl Default for Limits {
    fn default() -> Self {
        Self {
            rate: None,
            streams: Streams::new(16),
            request: Duration::from_mins(2),
            stall: Stall::default(),
            connections: 4_096,
            address_connections: 1_024,
            headers: Duration::from_secs(15),
            reader: READER,
            bodies: bodies(64),
            answers: answers(16),
            pace: Pace::default(),
        }
    }
}

impl Limits {
    /// Takes a request from the bucket of an account.
    pub async fn take(&self, metrics: &Metrics, account: Uuid) -> Result<(), Problem> {
        let Some(limiter) = &self.rate else { return Ok(()) };
        let standing = counted(limiter, metrics, account).await;
        if standing.allowed { Ok(()) } else { Err(refusal(limiter, standing)) }
    }

    /// The limits from the settings; must be called within a tokio runtime.
    #[must_use]
    pub fn new(settings: &LimitSettings, queues: &Queues) -> Self {
        let patience = Duration::from_millis(settings.rate_limit_patience_ms);
        let rate = Rate::new(settings.rate_limit, settings.rate_limit_burst)
            .map(|rate| RateLimiter::new(queues, rate, patience));
        Self {
            rate,
            streams: Streams::new(settings.token_streams),
            request: Duration::from_secs(settings.request_seconds),
            stall: Stall(Duration::from_secs(settings.body_stall_seconds)),
            connections: settings.connections,
            address_connections: settings.address_connections,
            headers: Duration::from_secs(settings.header_seconds),
            reader: READER,
            bodies: bodies(settings.body_mib),
            answers: answers(settings.answer_mib),
            pace: Pace::default(),
        }
    }
}

/// The bucket of an account after one more request.
pub(crate) async fn counted(limiter: &RateLimiter, metrics: &Metrics, account: Uuid) -> Allowance {
    let standing = limiter.take(account).await;
    if standing.is_local {
        metrics.rate_counted_locally();
    }
    standing
}

/// The refusal of a request whose account has no more of them.
pub(crate) fn refusal(limiter: &RateLimiter, standing: Allowance) -> Problem {
    let rate = limiter.rate();
    let detail =
        format!("the account may make at most {} requests in {} s", rate.burst(), rate.window_seconds());
    Problem::new(&RATE_LIMITED, detail).retry_after(Duration::from_secs(seconds(standing.retry_in)))
}

/// Whole seconds, rounded up, so that the wait is never too short.
pub(crate) fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// The open streams by account, counted per process, since each uses a connection to Postgres and a buffer of
/// the process.
#[derive(Clone, Debug)]
pub struct Streams {
    most: u32,
    open: Arc<Mutex<HashMap<Uuid, u32>>>,
}

impl Streams {
    /// Allows `most` streams per account; 0 means unlimited.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self { most, open: Arc::default() }
    }

    /// How many streams an account may have open; 0 means unlimited.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Opens a stream until the guard is dropped; `None` if the account has reached its limit.
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

/// An open stream that counts.
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
    fn streams_are_counted_by_account_and_released_when_they_end() {
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
    fn a_limit_of_zero_means_unlimited() {
        let streams = Streams::new(0);
        let open: Vec<_> = (0..100).map(|_| streams.open(Uuid::nil())).collect();
        assert!(open.iter().all(Option::is_some));
    }
}
