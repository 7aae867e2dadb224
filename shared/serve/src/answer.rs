//! The body of an answer, sent in small frames and dropped if it is not read.
//!
//! Over HTTP/1.1 the connection itself shows whether the body is read ([`super::reader`]). A stream of HTTP/2
//! may stay unread while others of its connection are read; its body is then not polled for the next frame.
//! Such a body is dropped, with everything it holds.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::time::Instant;

/// Bytes of a frame: the connection holds one frame, and the rest stays here, where it can be dropped.
pub(super) const FRAME: usize = 64 * 1024;

/// A body that is read or dropped.
#[derive(Debug)]
pub(super) struct Answer(Arc<Mutex<State>>);

/// Watches whether a body is read.
#[derive(Clone, Debug)]
pub(super) struct Watched(Weak<Mutex<State>>);

#[derive(Debug)]
struct State {
    body: Option<Body>,
    /// the rest of the last frame of the body
    rest: Bytes,
    /// when a frame was taken, while the next one has not been requested
    taken_at: Option<Instant>,
}

/// The error of an answer that was not read.
#[derive(Debug, thiserror::Error)]
#[error("the response was not read")]
struct Unread;

impl Answer {
    pub(super) fn new(body: Body) -> Self {
        Self(Arc::new(Mutex::new(State { body: Some(body), rest: Bytes::new(), taken_at: None })))
    }

    pub(super) fn watched(&self) -> Watched {
        Watched(Arc::downgrade(&self.0))
    }
}

impl Watched {
    /// Drops the body if its last frame was taken longer ago than `patience`; returns whether to check again.
    pub(super) fn drop_unread(&self, patience: Duration) -> bool {
        let Some(state) = self.0.upgrade() else { return false };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.taken_at.is_some_and(|at| at.elapsed() >= patience) {
            tracing::info!(
                answer.timeout_ms = patience.as_millis(),
                "a response was dropped: the client stopped reading"
            );
            state.body = None;
            state.rest = Bytes::new();
        }
        state.body.is_some()
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        state.taken_at = None;
        if state.rest.is_empty() {
            let Some(body) = &mut state.body else {
                return Poll::Ready(Some(Err(axum::Error::new(Unread))));
            };
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => state.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                other => return Poll::Ready(other),
            }
        }
        state.taken_at = Some(Instant::now());
        let frame = state.rest.split_to(state.rest.len().min(FRAME));
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.rest.is_empty() && state.body.as_ref().is_some_and(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = state.rest.len() as u64;
        let Some(body) = &state.body else { return SizeHint::default() };
        let inner = body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_large_body_is_sent_completely_in_small_frames() {
        let bytes: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let mut answer = Answer::new(Body::from(bytes.clone()));
        assert_eq!(answer.size_hint().exact(), Some(300_000));
        let mut read = Vec::new();
        while let Some(frame) = answer.frame().await {
            let frame = frame.unwrap().into_data().unwrap();
            assert!(frame.len() <= FRAME);
            read.extend_from_slice(&frame);
            assert_eq!(answer.size_hint().exact(), Some(300_000 - read.len() as u64));
        }
        assert_eq!(read, bytes);
        assert!(Answer::new(Body::empty()).is_end_stream());
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_body_is_dropped_and_a_silent_stream_is_not() {
        let mut answer = Answer::new(Body::from(vec![7; 200_000]));
        let watched = answer.watched();
        tokio::time::advance(PATIENCE * 2).await;
        assert!(watched.drop_unread(PATIENCE), "nothing was taken yet");
        answer.frame().await.unwrap().unwrap();
        tokio::time::advance(PATIENCE / 2).await;
        assert!(watched.drop_unread(PATIENCE));
        tokio::time::advance(PATIENCE / 2).await;
        assert!(!watched.drop_unread(PATIENCE));
        assert!(answer.frame().await.unwrap().is_err(), "it does not look whole");
        drop(answer);
        assert!(!watched.drop_unread(PATIENCE));
        // a stream without data at the moment
        let mut silent =
            Answer::new(Body::from_stream(futures::stream::pending::<Result<Bytes, axum::Error>>()));
        let watched = silent.watched();
        assert!(futures::poll!(silent.frame()).is_pending());
        tokio::time::advance(PATIENCE * 2).await;
        assert!(watched.drop_unread(PATIENCE));
    }
}
