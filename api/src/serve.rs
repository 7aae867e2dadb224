//! Serves the API, and ends gracefully.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use longshore_http::app::App;
use longshore_serve::{Limits, manager};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::router;

/// Serves until SIGTERM or SIGINT, then lets running requests end.
///
/// After SIGTERM it reports that it is not ready, but serves for `drain` longer, because a load balancer
/// notices only after a check or two. SIGINT (a person at the keyboard) or a second signal ends that at once.
pub async fn run(bind: SocketAddr, drain: Duration, app: App) -> anyhow::Result<()> {
    let listener = longshore_serve::listen(bind)
        .with_context(|| format!("cannot listen on {bind}: is the port taken? LONGSHORE_BIND changes it"))?;
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (stopping, closing) = (app.stopping.clone(), stop.clone());
    tokio::spawn(async move {
        let drains = tokio::select! {
            _ = terminate.recv() => !drain.is_zero(),
            _ = interrupt.recv() => false,
        };
        manager::stopping();
        stopping.cancel();
        if drains {
            tracing::info!(
                drain_s = drain.as_secs(),
                "no longer ready; the listener will close after the drain"
            );
            tokio::select! {
                () = tokio::time::sleep(drain) => {}
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        closing.cancel();
    });
    tracing::info!(address = %listener.local_addr()?, "listening");
    manager::ready();
    accept(listener, app, stop).await;
    tracing::info!("stopped");
    Ok(())
}

/// Serves a listener until `stop` is cancelled. Then streams of events end, and other requests may end.
pub async fn accept(listener: TcpListener, app: App, stop: CancellationToken) {
    let limits = Limits {
        connections: app.limits.connections,
        of_address: app.limits.address_connections,
        proxies: app.surroundings.proxies.clone(),
        head: app.limits.headers,
        reader: app.limits.reader,
        heads: app.limits.bodies.clone(),
    };
    let (closing, metrics) = (app.closing.clone(), app.services.metrics.clone());
    let stopped = stop.clone();
    tokio::join!(longshore_serve::accept(listener, router::build(app), limits, metrics, stop), async {
        stopped.cancelled().await;
        closing.cancel();
    });
}
