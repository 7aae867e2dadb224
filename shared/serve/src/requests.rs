//! The running requests of a connection, and what its client holds for them.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use longshore_kernel::share::{Grant, Ledger, Refusal, Who};
use tokio::time::Instant;

use super::HEAD_FREE;
use super::answer::{Answer, FRAME, Watched};
use super::room::{End, Place};

/// The running requests of a connection, since when there are none, and what was read of the next one.
#[derive(Clone, Debug)]
pub(super) struct Requests(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    place: Place,
    heads: Ledger,
    who: Who,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    running: u32,
    since: Instant,
    answers: Vec<Watched>,
    /// bytes read since no request has been running
    read: usize,
    /// those of them that are not free
    head: Option<Grant>,
    failed: Option<End>,
}

impl Requests {
    pub(super) fn new(place: Place, heads: Ledger, who: Who) -> Self {
        let state = State {
            running: 0,
            since: Instant::now(),
            answers: Vec::new(),
            read: 0,
            head: None,
            failed: None,
        };
        Self(Arc::new(Inner { place, heads, who, state: Mutex::new(state) }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request begins, unless the connection has lost its place.
    pub(super) fn begin(&self) -> Option<Running> {
        let mut state = self.lock();
        if state.running == 0 && !self.0.place.works() {
            return None;
        }
        state.running += 1;
        state.read = 0;
        Some(Running { _head: state.head.take(), requests: self.clone() })
    }

    /// Whether what is read now is of a head.
    pub(super) fn expects_head(&self) -> bool {
        self.lock().running == 0
    }

    /// Counts what was read of a head.
    pub(super) fn read(&self, bytes: usize) -> Result<(), Refusal> {
        let mut state = self.lock();
        state.read += bytes;
        let more = state.read.saturating_sub(HEAD_FREE) as u64;
        match &mut state.head {
            Some(head) => head.set(more)?,
            None if more > 0 => state.head = Some(self.0.heads.take(self.0.who, more)?),
            None => {}
        }
        Ok(())
    }

    /// The connection fails, for this reason.
    pub(super) fn fail(&self, end: End) {
        self.lock().failed = Some(end);
    }

    /// How the connection ended.
    pub(super) fn end(&self, ended: Result<(), Box<dyn Error + Send + Sync>>) -> End {
        let Err(error) = ended else { return End::Done };
        tracing::debug!(%error, "a connection ended early");
        let is_late = || error.downcast_ref().is_some_and(hyper::Error::is_timeout);
        self.lock().failed.unwrap_or_else(|| if is_late() { End::Idle } else { End::Done })
    }

    /// Returns when another connection has its place.
    pub(super) async fn displaced(&self) {
        self.0.place.displaced().await;
    }

    /// Drops answers that stay unread.
    pub(super) async fn drop_unread(&self, patience: Duration) -> Infallible {
        loop {
            tokio::time::sleep(patience / 4).await;
            self.lock().answers.retain(|answer| answer.drop_unread(patience));
        }
    }

    /// Returns after no request has run for `patience`.
    pub(super) async fn rest_for(&self, patience: Duration) {
        let from = Instant::now();
        loop {
            let (running, since) = {
                let state = self.lock();
                (state.running, state.since)
            };
            // while requests run, it cannot be known when the last one ends
            let until = if running > 0 { Instant::now() } else { since.max(from) } + patience;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

impl Running {
    /// Wraps the body of its answer.
    pub(super) fn counted(self, body: Body) -> Counted {
        let answer = Answer::new(body);
        // a body of a single frame goes to the connection at once
        if answer.size_hint().exact().is_none_or(|size| size > FRAME as u64) {
            self.requests.lock().answers.push(answer.watched());
        }
        Counted { answer, _running: self }
    }
}

/// A running request, until its answer is sent or abandoned; with the memory of its head.
#[derive(Debug)]
pub(super) struct Running {
    requests: Requests,
    _head: Option<Grant>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.requests.lock();
        state.running -= 1;
        state.since = Instant::now();
        if state.running == 0 {
            self.requests.0.place.rests();
        }
    }
}

/// The body of an answer; its request counts as running until it is dropped.
pub(super) struct Counted {
    answer: Answer,
    _running: Running,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.answer).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.size_hint()
    }
}
