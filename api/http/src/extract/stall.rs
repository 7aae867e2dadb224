//! Bodies from clients that stall: one that sends almost nothing only occupies a place.

use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures::StreamExt as _;
use longshore_kernel::problem::{MALFORMED_BODY, Problem};
use tokio::time::Instant;

use crate::limits::Stall;

/// Bytes that must arrive within each [`Stall`].
const LEAST_BYTES: usize = 4096;

/// The pieces of a body that must keep arriving.
#[derive(Debug)]
pub struct Steady {
    stream: BodyDataStream,
    stall: Duration,
    waited: Duration,
    waiting_since: Option<Instant>,
    arrived: usize,
}

impl Steady {
    /// Reads a body.
    #[must_use]
    pub fn new(body: Body, stall: Stall) -> Self {
        Self {
            stream: body.into_data_stream(),
            stall: stall.0,
            waited: Duration::ZERO,
            waiting_since: None,
            arrived: 0,
        }
    }

    /// The next piece, `None` at the end; a problem if the body ended early or stalls. It can be cancelled and
    /// called again without loss.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            // waits that the caller cancelled count, too; otherwise a caller that calls often would wait for
            // ever
            self.waited += self.waiting_since.take().map_or(Duration::ZERO, |since| since.elapsed());
            let since = *self.waiting_since.insert(Instant::now());
            let patience = self.stall.saturating_sub(self.waited);
            let next = tokio::time::timeout(patience, self.stream.next()).await;
            self.waiting_since = None;
            self.waited += since.elapsed();
            let piece = match next {
                Ok(Some(Ok(bytes))) => {
                    self.arrived += bytes.len();
                    Some(bytes)
                }
                Ok(Some(Err(error))) => return Err(broken(error)),
                Ok(None) => return Ok(None),
                Err(_) if self.arrived < LEAST_BYTES => {
                    let detail = format!("the body stalled for {} s", self.stall.as_secs_f32());
                    return Err(Problem::new(&MALFORMED_BODY, detail));
                }
                Err(_) => None,
            };
            if self.waited >= self.stall || self.arrived >= LEAST_BYTES {
                self.waited = Duration::ZERO;
                self.arrived = 0;
            }
            if piece.is_some() {
                return Ok(piece);
            }
        }
    }
}

/// Why a body broke off. One that is a part of another, as a file of a form is, has found that out itself.
fn broken(error: axum::Error) -> Problem {
    let mut error: BoxError = error.into_inner();
    loop {
        error = match error.downcast::<axum::Error>() {
            Ok(outer) => outer.into_inner(),
            Err(inner) => {
                return inner.downcast::<Problem>().map_or_else(
                    |_| Problem::new(&MALFORMED_BODY, "the body ended early"),
                    |problem| *problem,
                );
            }
        }
    }
}
