//! `Accept`: operations of the API answer with JSON; a request that excludes it is refused (406). The header
//! is optional.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::ACCEPT;
use longshore_kernel::problem::{NOT_ACCEPTABLE, Problem};

use crate::extract::Failure;

/// Media ranges that include the types of answers.
const INCLUDING_JSON: [&str; 5] =
    ["*/*", "application/*", "application/json", "application/problem+json", "text/event-stream"];

/// Refuses a request that does not accept the answer.
pub async fn layer(request: Request, next: Next) -> Response {
    if is_acceptable(request.headers()) {
        return next.run(request).await;
    }
    Failure::from(Problem::new(&NOT_ACCEPTABLE, "the Accept header must include application/json"))
        .into_response()
}

/// Whether the header includes the types of answers.
#[must_use]
pub fn is_acceptable(headers: &HeaderMap) -> bool {
    let mut ranges = headers
        .get_all(ACCEPT)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter(|range| !range.trim().is_empty())
        .peekable();
    ranges.peek().is_none() || ranges.any(accepts_json)
}

fn accepts_json(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let refused =
        parts.any(|p| p.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()).is_some_and(|q| q <= 0.0));
    !refused && INCLUDING_JSON.iter().any(|known| essence.eq_ignore_ascii_case(known))
}
