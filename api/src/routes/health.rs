//! Whether the process lives and can work, and its metrics.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use longshore_shared::platform::metrics;
use longshore_shared::platform::services::Services;
use serde_json::json;

use crate::extract::Failure;

/// How long a part may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// `GET /health/live`: the process answers.
pub async fn live() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// `GET /health/ready`: Postgres is required; Redis is reported, since requests are accepted without it.
pub async fn ready(State(services): State<Arc<Services>>) -> Response {
    let (postgres, redis) =
        tokio::join!(tokio::time::timeout(PATIENCE, services.db.ping()), services.queues.ping(PATIENCE),);
    let postgres = matches!(postgres, Ok(Ok(())));
    let word = |up| if up { "up" } else { "down" };
    let status = if postgres { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "status": if postgres { "ready" } else { "unavailable" },
        "postgres": word(postgres),
        "redis": word(redis),
    });
    (status, Json(body)).into_response()
}

/// `GET /metrics`: what Prometheus reads, whatever `Accept` says.
pub async fn get_metrics(State(services): State<Arc<Services>>) -> Result<Response, Failure> {
    let text = services.metrics.render(&services).await?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
