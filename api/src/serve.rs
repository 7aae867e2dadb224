//! Accepts connections: limits what a client may hold, and ends gracefully.
//!
//! It serves HTTP/1.1, and HTTP/2 without TLS for clients with prior knowledge (RFC 9113, section 3.3), such
//! as a proxy configured for it. Both have the same limits: a stream of HTTP/2 may hold what a connection of
//! HTTP/1.1 may. A connection without requests for [`longshore_http::limits::Limits::headers`] ends.

mod answer;
mod connection;
mod reader;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use longshore_http::app::App;
use longshore_http::limits::Limits;
use longshore_http::middleware::headers::{MAX_BYTES, MAX_FIELDS};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::connection::Connection;
use crate::router;

/// How long running requests may take to end when the process must stop.
const GRACE: Duration = Duration::from_secs(30);

/// Requests that may run at once on a connection of HTTP/2.
pub const STREAMS: u32 = 128;

/// Bytes of its body that a stream of HTTP/2 may hold before they are read.
const STREAM_BYTES: u32 = 64 * 1024;

/// Bytes of its answer that a stream may hold before they are sent.
const SEND_BYTES: usize = 64 * 1024;

/// How often the other end of an HTTP/2 connection is pinged, and how long it may take to answer.
const PING: Duration = Duration::from_secs(20);

/// Serves until SIGTERM or SIGINT, then lets running requests end.
///
/// After SIGTERM it reports that it is not ready, but serves for `drain` longer, because a load balancer
/// notices only after a check or two. SIGINT (a person at the keyboard) or a second signal ends that at once.
pub async fn run(bind: SocketAddr, drain: Duration, app: App) -> anyhow::Result<()> {
    let listener = TcpListener::bind(bind)
        .await
        .with_context(|| format!("cannot listen on {bind}: is the port taken? LONGSHORE_BIND changes it"))?;
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (stopping, closing) = (app.stopping.clone(), stop.clone());
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {
                stopping.cancel();
                if !drain.is_zero() {
                    tracing::info!(drain_s = drain.as_secs(), "no longer ready; the listener will close after the drain");
                }
                tokio::select! {
                    () = tokio::time::sleep(drain) => {}
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            _ = interrupt.recv() => stopping.cancel(),
        }
        closing.cancel();
    });
    tracing::info!(address = %listener.local_addr()?, "listening");
    accept(listener, app, stop).await;
    tracing::info!("stopped");
    Ok(())
}

/// Serves a listener until `stop` is cancelled. Then streams of events end, and other requests may end.
pub async fn accept(listener: TcpListener, app: App, stop: CancellationToken) {
    let (http, patience, reader) = (http(&app.limits), app.limits.headers, app.limits.reader);
    let closing = app.closing.clone();
    let service = TowerToHyperService::new(router::build(app));
    let connections = TaskTracker::new();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // no file descriptors are left, or the client has disconnected: neither ends the service
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stop.cancelled() => break,
        };
        let connection =
            Connection { http: http.clone(), service: service.clone(), patience, reader, stop: stop.clone() };
        connections.spawn(connection.serve(stream, peer));
    }
    drop(listener);
    closing.cancel();
    connections.close();
    if tokio::time::timeout(GRACE, connections.wait()).await.is_err() {
        tracing::warn!(grace_s = GRACE.as_secs(), "some requests did not end in time and were cut off");
    }
}

/// Both versions of HTTP. A request between our limits and twice those still gets the one error shape.
fn http(limits: &Limits) -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_buf_size(2 * MAX_BYTES)
        .max_headers(2 * MAX_FIELDS);
    http.http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(2 * MAX_BYTES).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_BYTES)
        // so that an upload that is not read does not block the others
        .initial_connection_window_size(STREAMS * STREAM_BYTES)
        .max_send_buf_size(SEND_BYTES)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    http
}
