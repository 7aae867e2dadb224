//! Connections of the client: resolved and checked names, a time-out, TLS, and what comes over each is followed.
//!
//! `reqwest`, which the rest of the project uses, has no layer between a connection and its reader, so this
//! builds on the client underneath it.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Uri;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use longshore_kernel::address::Guard;
use rustls_platform_verifier::BuilderVerifierExt as _;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::{BoxError, Service, ServiceExt as _};

use super::head::LINES;
use super::resolve::GuardedResolver;
use super::traffic::{BEFORE_BODY, Followed, PIECE};

/// How long connecting may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an idle connection is kept, and how often those that the other side has closed are given up: each keeps ten kilobytes until
/// then. Most servers close theirs after 5 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// Idle connections per host.
const IDLE_PER_HOST: usize = 256;

/// Bytes of a head that the client can hold: more than the budget, which is thus what ends it.
const HEAD_BUFFER: usize = BEFORE_BODY + PIECE;

/// With HTTP/2, bytes of an answer that are read before they are consumed, less than the budget: for one stream and for a whole
/// connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 128 * 1024;

/// Maximum size of the head of an answer by HTTP/2, decompressed.
const HEAD: u32 = 256 * 1024;

/// There was no connection in time.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no connection within {} s", CONNECT_TIMEOUT.as_secs())]
pub(super) struct NoConnection;

/// The underlying HTTP client.
pub(super) type Http = Client<Connector, Full<Bytes>>;

/// The clients that make all calls.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    /// Keeps connections.
    pub(super) keeping: Http,
    /// Opens a connection for each call.
    pub(super) fresh: Http,
}

/// Opens the clients.
pub(super) fn open(guard: Guard) -> Result<Clients, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    let mut tcp = HttpConnector::new_with_resolver(GuardedResolver::new(guard));
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let connector = Connector { https: https.enable_http1().enable_http2().wrap_connector(tcp) };
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .http1_max_buf_size(HEAD_BUFFER)
        .http1_max_headers(LINES)
        .http1_allow_obsolete_multiline_headers_in_responses(true)
        .http1_allow_spaces_after_header_name_in_responses(true)
        .http1_ignore_invalid_headers_in_responses(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_header_list_size(HEAD);
    let keeping = builder.build(connector.clone());
    let fresh = builder.pool_max_idle_per_host(0).build(connector);
    Ok(Clients { keeping, fresh })
}

/// Opens connections.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    https: HttpsConnector<HttpConnector<GuardedResolver>>,
}

type Secured = <HttpsConnector<HttpConnector<GuardedResolver>> as Service<Uri>>::Response;

impl Service<Uri> for Connector {
    type Response = TokioIo<Followed<TokioIo<Secured>>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.https.clone().oneshot(to);
        Box::pin(async move {
            match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(connected) => Ok(TokioIo::new(Followed::new(TokioIo::new(connected?)))),
                Err(_) => Err(NoConnection.into()),
            }
        })
    }
}
