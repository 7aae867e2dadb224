//! Accepting connections: limits on what a client may hold, and a graceful end.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::extract::visitor::Peer;
use crate::middleware::headers::{MAX_BYTES, MAX_FIELDS};
use crate::router;

/// How long running requests may take to end once the process is asked to stop.
const GRACE: Duration = Duration::from_secs(30);

/// Serves until SIGTERM or SIGINT, then lets running requests end.
pub async fn run(bind: SocketAddr, app: App) -> anyhow::Result<()> {
    let listener = TcpListener::bind(bind)
        .await
        .with_context(|| format!("cannot listen on {bind}: is the port taken? LONGSHORE_BIND changes it"))?;
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stopping = stop.clone();
    tokio::spawn(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        stopping.cancel();
    });
    tracing::info!(address = %listener.local_addr()?, "listening");
    accept(listener, app, stop).await;
    tracing::info!("stopped");
    Ok(())
}

/// Serves a listener until `stop` is cancelled.
pub async fn accept(listener: TcpListener, app: App, stop: CancellationToken) {
    let mut http = hyper::server::conn::http1::Builder::new();
    // what is past our own limits, but not past twice them, still gets the one error shape
    http.timer(TokioTimer::new())
        .header_read_timeout(app.limits.headers)
        .max_buf_size(2 * MAX_BYTES)
        .max_headers(2 * MAX_FIELDS);
    let service = TowerToHyperService::new(router::build(app));
    let running = GracefulShutdown::new();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // out of file descriptors, or the client is gone already: neither ends the service
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stop.cancelled() => break,
        };
        serve_connection(stream, peer, &http, service.clone(), &running);
    }
    drop(listener);
    if tokio::time::timeout(GRACE, running.shutdown()).await.is_err() {
        tracing::warn!(grace_s = GRACE.as_secs(), "some requests did not end in time and were cut off");
    }
}

fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    http: &hyper::server::conn::http1::Builder,
    service: TowerToHyperService<axum::Router>,
    running: &GracefulShutdown,
) {
    // answers are written whole: waiting for more to send only delays them
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer.ip()));
        service.call(request)
    });
    let connection = running.watch(http.serve_connection(TokioIo::new(stream), service));
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended early");
        }
    });
}
