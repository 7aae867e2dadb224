//! Whether the process lives and can work.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use longshore_shared::platform::services::Services;
use serde_json::json;

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
