//! Health and metrics of the process.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use longshore_domain::standing::backlog;
use longshore_http::app::App;
use longshore_http::extract::Failure;
use longshore_kernel::metrics;
use longshore_kernel::readiness::Readiness;
use longshore_kernel::services::Services;
use serde_json::json;

/// `GET /health/live`: the process answers.
pub async fn live() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// `GET /health/ready`: requires Postgres, and reports Redis, without which requests are still accepted. A
/// process that is stopping is not ready, so that load balancers stop using it before its listener closes.
pub async fn ready(State(app): State<App>) -> Response {
    if app.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "stopping"}))).into_response();
    }
    let readiness = Readiness::look(&app.services).await;
    let ready = readiness.postgres;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness.body(ready))).into_response()
}

/// `GET /metrics`: for Prometheus, regardless of `Accept`.
pub async fn get_metrics(State(services): State<Arc<Services>>) -> Result<Response, Failure> {
    let text = backlog::metrics(&services).await?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
