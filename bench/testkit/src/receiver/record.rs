//! The records of a receiver, and the waits for them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method};
use tokio::sync::oneshot;

/// The header that distinguishes a repeated webhook from a new one (Standard Webhooks).
const WEBHOOK_ID: &str = "webhook-id";

/// A received request.
#[derive(Debug, Clone)]
pub struct Receipt {
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: String,
    /// Its query.
    pub query: Option<String>,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, exactly as signed.
    pub body: Bytes,
    /// When it was complete.
    pub at: Instant,
}

impl Receipt {
    /// A request that has just been completed.
    pub(super) fn of(head: &Parts, body: &Bytes) -> Self {
        Self {
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().map(str::to_owned),
            headers: head.headers.clone(),
            body: body.clone(),
            at: Instant::now(),
        }
    }

    /// The value of a header, if it is readable text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When the body is not JSON.
    pub fn json(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::from_slice(&self.body)
    }
}

/// The requests since the start.
#[derive(Debug, Default)]
pub struct Seen {
    /// The number of requests.
    pub requests: u64,
    /// The number of requests with each `webhook-id`.
    pub ids: HashMap<Box<str>, u64>,
    /// When the latest one was complete.
    pub latest: Option<Instant>,
    /// All requests, in order; empty in counting mode.
    pub receipts: Vec<Receipt>,
    /// The number of complete requests without an answer yet.
    pub in_flight: u64,
    /// The maximum of `in_flight`.
    pub peak_in_flight: u64,
}

impl Seen {
    /// How often each value of a header occurred; in counting mode only `webhook-id` is known.
    #[must_use]
    pub fn counts_by(&self, header: &str) -> HashMap<String, u64> {
        if header.eq_ignore_ascii_case(WEBHOOK_ID) {
            return self.ids.iter().map(|(id, count)| (id.to_string(), *count)).collect();
        }
        let mut counts = HashMap::new();
        for value in self.receipts.iter().filter_map(|receipt| receipt.header(header)) {
            *counts.entry(value.to_owned()).or_default() += 1;
        }
        counts
    }
}

/// A condition on the requests so far.
pub(super) type Condition = Box<dyn Fn(&Seen) -> bool + Send>;

/// The records of a receiver, shared by its connections.
#[derive(Debug)]
pub(super) struct Record {
    whole: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: Seen,
    waiting: Vec<(Condition, oneshot::Sender<()>)>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Record {
    /// Keeps whole requests.
    pub(super) fn whole() -> Self {
        Self { whole: true, state: Mutex::default() }
    }

    /// Keeps counts, webhook ids and the time of the latest request.
    pub(super) fn counting() -> Self {
        Self { whole: false, state: Mutex::default() }
    }

    /// Records a complete request, and wakes those who wait for it. It counts as in flight until the returned
    /// value is dropped.
    pub(super) fn arrived(&self, head: &Parts, body: &Bytes) -> InFlight<'_> {
        let at = Instant::now();
        let mut state = self.lock();
        let State { seen, waiting } = &mut *state;
        seen.requests += 1;
        seen.latest = Some(at);
        seen.in_flight += 1;
        seen.peak_in_flight = seen.peak_in_flight.max(seen.in_flight);
        if let Some(id) = head.headers.get(WEBHOOK_ID).and_then(|id| id.to_str().ok()) {
            match seen.ids.get_mut(id) {
                Some(count) => *count += 1,
                None => _ = seen.ids.insert(id.into(), 1),
            }
        }
        if self.whole {
            seen.receipts.push(Receipt { at, ..Receipt::of(head, body) });
        }
        for (_, tell) in waiting.extract_if(.., |(reached, tell)| tell.is_closed() || reached(seen)) {
            // The waiter may have given up.
            _ = tell.send(());
        }
        InFlight(self)
    }

    /// Notifies the returned receiver when `reached` is true; `None` if it already is.
    pub(super) fn tell_when(&self, reached: Condition) -> Option<oneshot::Receiver<()>> {
        let mut state = self.lock();
        if reached(&state.seen) {
            return None;
        }
        let (tell, signal) = oneshot::channel();
        state.waiting.push((reached, tell));
        Some(signal)
    }

    /// Reads the requests so far.
    pub(super) fn with<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.lock().seen)
    }

    /// Returns and removes the recorded requests.
    pub(super) fn take(&self) -> Vec<Receipt> {
        std::mem::take(&mut self.lock().seen.receipts)
    }

    /// Forgets all requests; those in flight still count as such.
    pub(super) fn forget(&self) {
        let mut state = self.lock();
        let in_flight = state.seen.in_flight;
        state.seen = Seen { in_flight, peak_in_flight: in_flight, ..Seen::default() };
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Poisoning is harmless: a condition only reads.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request without an answer yet.
pub(super) struct InFlight<'a>(&'a Record);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.lock().seen.in_flight -= 1;
    }
}
