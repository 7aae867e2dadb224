//! Whether the process lives and can work, and its metrics.

use longshore_http::app::App;
use longshore_http::extract::Failure;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use longshore_shared::platform::metrics;
use longshore_shared::platform::readiness::Readiness;
use longshore_shared::platform::services::Services;
use serde_json::json;

/// `GET /health/live`: the process answers.
pub async fn live() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// `GET /health/ready`: Postgres is required; Redis is reported, since requests are accepted without it. A process that was
/// asked to stop is not ready, so that a load balancer sends it nothing more before its listener closes.
pub async fn ready(State(app): State<App>) -> Response {
    if app.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "stopping"}))).into_response();
    }
    let readiness = Readiness::look(&app.services).await;
    let ready = readiness.postgres;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness.body(ready))).into_response()
}

/// `GET /metrics`: what Prometheus reads, whatever `Accept` says.
pub async fn get_metrics(State(services): State<Arc<Services>>) -> Result<Response, Failure> {
    let text = services.metrics.render(&services).await?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
