//! Health endpoints and metrics of the worker.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use axum::extract::State;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use longshore_domain::standing::backlog;
use longshore_kernel::metrics;
use longshore_kernel::proxy::Proxies;
use longshore_kernel::readiness::Readiness;
use longshore_kernel::share::Ledger;
use longshore_serve::{Limits, MOST_READ, accept, sniffing};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::context::WorkerContext;

/// Connections at once: of probes, and of those who read metrics.
const CONNECTIONS: u32 = 64;

/// Starts the endpoints in their own task.
pub async fn listen(bind: SocketAddr, context: WorkerContext) -> anyhow::Result<JoinHandle<()>> {
    let listener = longshore_serve::listen(bind).with_context(|| {
        format!("cannot listen on {bind}: is the port taken? LONGSHORE_WORKER_BIND changes it")
    })?;
    Ok(tokio::spawn(serve(listener, context, limits())))
}

/// Serves the endpoints on a listener.
pub async fn serve(listener: TcpListener, context: WorkerContext, limits: Limits) {
    let metrics = context.services.metrics.clone();
    accept(listener, router(context), limits, metrics, CancellationToken::new()).await;
}

/// The limits of the endpoints.
#[must_use]
pub fn limits() -> Limits {
    Limits {
        connections: CONNECTIONS,
        of_address: CONNECTIONS,
        proxies: Proxies::default(),
        head: Duration::from_secs(15),
        reader: Duration::from_secs(30),
        heads: Ledger::new("memory for heads", u64::from(CONNECTIONS) * MOST_READ as u64, 1),
    }
}

/// The routes of the endpoints.
pub fn router(context: WorkerContext) -> Router {
    Router::new()
        .route("/health/live", get(async || Json(json!({"status": "ok"}))))
        .route("/health/ready", get(ready))
        .route("/metrics", get(tell_metrics))
        .layer(from_fn(sniffing::layer))
        .with_state(context)
}

/// Answers whether the worker can work: it needs Postgres, and a Redis that accepts writes.
async fn ready(State(context): State<WorkerContext>) -> Response {
    let readiness = Readiness::look(&context.services).await;
    let ready = readiness.postgres && readiness.redis.is_up();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness.body(ready))).into_response()
}

/// Answers with the metrics for Prometheus.
async fn tell_metrics(State(context): State<WorkerContext>) -> Response {
    match backlog::metrics(&context.services).await {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(problem) => {
            tracing::error!(error = %problem, "metrics cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
