//! The listener of every program: accepts connections, limits what a client may hold, and ends gracefully.
//!
//! It serves HTTP/1.1, and HTTP/2 without TLS for clients with prior knowledge (RFC 9113, section 3.3), such
//! as a proxy configured for it. Both have the same limits: a stream of HTTP/2 may hold what a connection of
//! HTTP/1.1 may.
//!
//! | what a client holds | its limit |
//! | --- | --- |
//! | connections | [`Limits::connections`], and [`Limits::of_address`]; the one that has been without a running request for longest makes room for the next ([`room`]) |
//! | an unfinished head, an idle connection | [`Limits::head`] |
//! | the bytes of a head | [`MOST_READ`]; what is past [`HEAD_FREE`] is taken from [`Limits::heads`], until the request is answered; not of a request that begins while another one of its connection runs |
//! | an answer that it does not read | [`Limits::reader`] |

mod answer;
mod connection;
pub mod manager;
mod reader;
mod requests;
mod room;
pub mod sniffing;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use longshore_kernel::metrics::Metrics;
use longshore_kernel::proxy::{Proxies, site};
use longshore_kernel::share::Ledger;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::connection::Connection;
use self::reader::refuse;
use self::room::{End, Room};

/// Maximum bytes of the target and of the names and values of the header fields together.
pub const MAX_BYTES: usize = 64 * 1024;

/// Maximum number of header fields.
pub const MAX_FIELDS: usize = 128;

/// Bytes that are read of a head: [`MAX_BYTES`] with all that stands between them, and a little more, so that a
/// head that is a little too large still gets the one error shape.
pub const MOST_READ: usize = MAX_BYTES + 8 * 1024;

/// Bytes of a head that are free; the connection has a buffer of this size anyway.
pub const HEAD_FREE: usize = 8 * 1024;

/// Requests that may run at once on a connection of HTTP/2.
pub const STREAMS: u32 = 128;

/// Bytes of its body that a stream of HTTP/2 may hold before they are read.
const STREAM_BYTES: u32 = 64 * 1024;

/// Bytes of its answer that a stream may hold before they are sent.
const SEND_BYTES: usize = 64 * 1024;

/// How often the other end of an HTTP/2 connection is pinged, and how long it may take to answer.
const PING: Duration = Duration::from_secs(20);

/// How long running requests may take to end when the process must stop.
const GRACE: Duration = Duration::from_secs(30);

/// Connections that the kernel keeps until they are accepted. It ignores further ones, which try again after a second.
const BACKLOG: u32 = 4_096;

/// The other end of the connection, in the extensions of every request.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// The limits of a listener.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections that are open at once.
    pub connections: u32,
    /// Those of one address; an address of IPv6 counts as its /64.
    pub of_address: u32,
    /// Proxies, to which [`Self::of_address`] does not apply: each has the connections of many clients.
    pub proxies: Proxies,
    /// The time within which a client must send the head of its next request.
    pub head: Duration,
    /// How long a client may read nothing of an answer.
    pub reader: Duration,
    /// Bytes of heads past [`HEAD_FREE`].
    pub heads: Ledger,
}

/// Listens on an address; must be called within a tokio runtime.
pub fn listen(bind: SocketAddr) -> io::Result<TcpListener> {
    let socket = if bind.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(bind)?;
    socket.listen(BACKLOG)
}

/// Serves a listener until `stop` is cancelled. Then running requests may end.
pub async fn accept(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let http = http(&limits);
    let service = TowerToHyperService::new(router);
    let room = Room::new(limits.connections, limits.of_address, metrics.clone());
    let connections = TaskTracker::new();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // no file descriptors are left, or the client has disconnected: neither ends the service
                    tracing::warn!(%error, "accepting a connection failed");
                    if error.kind() != ErrorKind::ConnectionAborted {
                        room.make();
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stop.cancelled() => break,
        };
        let peer = peer.ip();
        let Some(place) = room.enter((!limits.proxies.trusts(peer)).then(|| site(peer))) else {
            refuse(&stream);
            metrics.connections_ended(End::Refused.word(), 1);
            continue;
        };
        let connection = Connection {
            http: http.clone(),
            service: service.clone(),
            peer,
            patience: limits.head,
            reader: limits.reader,
            heads: limits.heads.clone(),
            stop: stop.clone(),
        };
        let metrics = metrics.clone();
        connections.spawn(async move {
            let end = connection.serve(stream, place).await;
            metrics.connections_ended(end.word(), 1);
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(GRACE, connections.wait()).await.is_err() {
        tracing::warn!(grace_s = GRACE.as_secs(), "some requests did not end in time and were cut off");
    }
}

/// Both versions of HTTP.
fn http(limits: &Limits) -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MOST_READ)
        .max_headers(2 * MAX_FIELDS);
    http.http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(MOST_READ).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_BYTES)
        // so that an upload that is not read does not block the others
        .initial_connection_window_size(STREAMS * STREAM_BYTES)
        .max_send_buf_size(SEND_BYTES)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    http
}
