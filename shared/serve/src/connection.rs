//! One connection, from its first request to its end.

use std::future::pending;
use std::net::IpAddr;
use std::time::Duration;

use axum::response::Response;
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderValue, StatusCode, Version};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use longshore_kernel::share::{Ledger, Who};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::Peer;
use super::reader::{Read, keep_alive};
use super::requests::Requests;
use super::room::{End, Place};

/// The parts that serve a connection.
pub(super) struct Connection {
    pub(super) http: Builder<TokioExecutor>,
    pub(super) service: TowerToHyperService<axum::Router>,
    pub(super) peer: IpAddr,
    /// How long the connection may have no requests.
    pub(super) patience: Duration,
    /// How long an answer may stay unread.
    pub(super) reader: Duration,
    /// Memory of heads.
    pub(super) heads: Ledger,
    /// Cancelled when the process must stop.
    pub(super) stop: CancellationToken,
}

impl Connection {
    /// Serves the connection until the client closes it, it is idle for too long, another one needs its place, or the process stops
    /// and running requests have ended.
    pub(super) async fn serve(self, stream: TcpStream, place: Place) -> End {
        // answers are written whole: waiting for more data would only delay them
        let _ = stream.set_nodelay(true);
        if let Err(error) = keep_alive(&stream) {
            tracing::debug!(%error, "cannot enable TCP keepalive");
        }
        let requests = Requests::new(place, self.heads, Who::at(self.peer));
        let stream = Read::new(stream, self.reader, requests.clone());
        let service = service_fn(|request: Request<Incoming>| {
            let begun = requests.begin().map(|running| {
                let answer = self.service.call(prepare(request, self.peer));
                (running, answer)
            });
            async move {
                // what has lost its place ends before anything is done for it
                let Some((running, answer)) = begun else { return pending().await };
                let answer = finish(answer.await?);
                Ok::<_, std::convert::Infallible>(answer.map(|body| running.counted(body)))
            }
        });
        let mut connection = std::pin::pin!(self.http.serve_connection(TokioIo::new(stream), service));
        let end = tokio::select! {
            ended = connection.as_mut() => return requests.end(ended),
            () = requests.rest_for(self.patience) => End::Idle,
            () = requests.displaced() => return End::Displaced,
            never = requests.drop_unread(self.reader) => match never {},
            () = self.stop.cancelled() => End::Stopped,
        };
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            ended = connection => {
                requests.end(ended);
            }
            never = requests.drop_unread(self.reader) => match never {},
            () = requests.displaced() => {}
            // the client did not react to the graceful end either
            () = requests.rest_for(self.patience) => {}
        }
        end
    }
}

/// Adds the peer, and for HTTP/2 the `Host` header.
fn prepare(mut request: Request<Incoming>, peer: IpAddr) -> Request<Incoming> {
    request.extensions_mut().insert(Peer(peer));
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
