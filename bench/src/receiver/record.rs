//! What a receiver remembers, and whom it wakes.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method};
use tokio::sync::oneshot;

/// The header by which receivers tell a repeated webhook from a new one (Standard Webhooks).
const WEBHOOK_ID: &str = "webhook-id";

/// One request as it came.
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
    /// Its body, byte by byte as signed.
    pub body: Bytes,
    /// When its last byte had come.
    pub at: Instant,
}

impl Receipt {
    /// What came, just now.
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

    /// A header's value, where it is there and readable text.
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

/// What has come since the start.
#[derive(Debug, Default)]
pub struct Seen {
    /// How many requests.
    pub requests: u64,
    /// How often each `webhook-id`.
    pub ids: HashMap<Box<str>, u64>,
    /// When the latest came whole.
    pub latest: Option<Instant>,
    /// Every request, in order; empty in counting mode.
    pub receipts: Vec<Receipt>,
    /// How many came whole and are not yet answered.
    pub in_flight: u64,
    /// The highest value that `in_flight` had.
    pub peak_in_flight: u64,
}

impl Seen {
    /// How often each value of a header came; in counting mode only `webhook-id` is known.
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

/// A condition on what has come.
pub(super) type Condition = Box<dyn Fn(&Seen) -> bool + Send>;

/// The memory of a receiver, shared by its connections.
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
    /// Keeps every request.
    pub(super) fn whole() -> Self {
        Self { whole: true, state: Mutex::default() }
    }

    /// Keeps counts, webhook ids and the latest arrival.
    pub(super) fn counting() -> Self {
        Self { whole: false, state: Mutex::default() }
    }

    /// Records a request that has come whole, and wakes whoever waited for it. It counts as in flight until
    /// the returned value is dropped.
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
            // Whoever gave up meanwhile needs no word.
            _ = tell.send(());
        }
        InFlight(self)
    }

    /// A word as soon as `reached` holds, or nothing where it holds already.
    pub(super) fn tell_when(&self, reached: Condition) -> Option<oneshot::Receiver<()>> {
        let mut state = self.lock();
        if reached(&state.seen) {
            return None;
        }
        let (tell, told) = oneshot::channel();
        state.waiting.push((reached, tell));
        Some(told)
    }

    /// Looks at what has come.
    pub(super) fn with<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.lock().seen)
    }

    /// Hands out the receipts kept so far.
    pub(super) fn take(&self) -> Vec<Receipt> {
        std::mem::take(&mut self.lock().seen.receipts)
    }

    /// Forgets what came; what is in flight stays so.
    pub(super) fn forget(&self) {
        let mut state = self.lock();
        let in_flight = state.seen.in_flight;
        state.seen = Seen { in_flight, peak_in_flight: in_flight, ..Seen::default() };
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A condition that panicked left nothing half done: it only looks.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is not yet answered.
pub(super) struct InFlight<'a>(&'a Record);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.lock().seen.in_flight -= 1;
    }
}
