//! One connection, from its first request to its end.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderValue, StatusCode, Version};
use hyper::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use longshore_http::extract::visitor::Peer;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, FRAME, Watched};
use super::reader::{Read, keep_alive};

/// The parts that serve a connection.
pub(super) struct Connection {
    pub(super) http: Builder<TokioExecutor>,
    pub(super) service: TowerToHyperService<axum::Router>,
    /// How long the connection may have no requests.
    pub(super) patience: Duration,
    /// How long an answer may stay unread.
    pub(super) reader: Duration,
    /// Cancelled when the process must stop.
    pub(super) stop: CancellationToken,
}

impl Connection {
    /// Serves the connection until the client closes it, it is idle for too long, or the process stops and
    /// running requests have ended.
    pub(super) async fn serve(self, stream: TcpStream, peer: SocketAddr) {
        // answers are written whole: waiting for more data would only delay them
        let _ = stream.set_nodelay(true);
        if let Err(error) = keep_alive(&stream) {
            tracing::debug!(%error, "cannot enable TCP keepalive");
        }
        let stream = Read::new(stream, self.reader);
        let requests = Requests::default();
        let service = service_fn(|request: Request<Incoming>| {
            let running = requests.begin();
            let answer = self.service.call(prepare(request, peer));
            async move {
                let answer = finish(answer.await?);
                Ok::<_, std::convert::Infallible>(answer.map(|body| running.counted(body)))
            }
        });
        let mut connection = std::pin::pin!(self.http.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = requests.rest_for(self.patience) => None,
            never = requests.drop_unread(self.reader) => match never {},
            () = self.stop.cancelled() => None,
        };
        let ended = if let Some(ended) = ended {
            ended
        } else {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                never = requests.drop_unread(self.reader) => match never {},
                // the client did not react to the graceful end either
                () = requests.rest_for(self.patience) => return,
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// Adds the peer, and for HTTP/2 the `Host` header.
fn prepare(mut request: Request<Incoming>, peer: SocketAddr) -> Request<Incoming> {
    request.extensions_mut().insert(Peer(peer.ip()));
    if request.version() == Version::HTTP_2
        && !request.headers().contains_key(HOST)
        && let Some(host) =
            request.uri().authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok())
    {
        request.headers_mut().insert(HOST, host);
    }
    request
}

/// Removes the length that the router adds to an answer without content (RFC 9110, section 8.6).
fn finish(mut answer: Response) -> Response {
    if matches!(answer.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        answer.headers_mut().remove(CONTENT_LENGTH);
    }
    answer
}

/// The running requests of a connection, and since when there are none.
#[derive(Clone, Debug)]
struct Requests(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    running: u32,
    since: Instant,
    answers: Vec<Watched>,
}

impl Default for Requests {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { running: 0, since: Instant::now(), answers: Vec::new() })))
    }
}

impl Requests {
    fn begin(&self) -> Running {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).running += 1;
        Running(self.clone())
    }

    /// Drops answers that stay unread.
    async fn drop_unread(&self, patience: Duration) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(patience / 4).await;
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.answers.retain(|answer| answer.drop_unread(patience));
        }
    }

    /// Returns after no request has run for `patience`.
    async fn rest_for(&self, patience: Duration) {
        let from = Instant::now();
        loop {
            let (running, since) = {
                let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn counted(self, body: Body) -> Counted {
        let answer = Answer::new(body);
        // a body of a single frame goes to the connection at once
        if answer.size_hint().exact().is_none_or(|size| size > FRAME as u64) {
            self.0.0.lock().unwrap_or_else(PoisonError::into_inner).answers.push(answer.watched());
        }
        Counted { answer, _running: self }
    }
}

/// A running request, until its answer is sent or abandoned.
#[derive(Debug)]
struct Running(Requests);

impl Drop for Running {
    fn drop(&mut self) {
        let mut requests = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        requests.running -= 1;
        requests.since = Instant::now();
    }
}

/// The body of an answer; its request counts as running until it is dropped.
struct Counted {
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
