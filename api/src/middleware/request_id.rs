//! The request's id, and its one log line.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue};
use longshore_shared::platform::ids;
use tracing::Instrument as _;

/// Names the request in the answer, in the audit and in every log line.
#[derive(Clone, Debug)]
pub struct RequestId(pub Arc<str>);

/// The header that bears it, both ways.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Characters that a caller's own id may have to be taken over.
const SANE_LENGTH: usize = 64;

/// Gives the request its id (the caller's, when it is sane), and logs how it ended.
pub async fn layer(mut request: Request, next: Next) -> Response {
    let id = RequestId(given(&request).unwrap_or_else(|| ids::new_id().to_string()).into());
    let (method, started) = (request.method().clone(), Instant::now());
    let route = request.extensions().get::<MatchedPath>().map(|p| p.as_str().to_owned());
    request.extensions_mut().insert(id.clone());
    let span = tracing::info_span!("request", request.id = %id.0);
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status().as_u16();
    let duration_ms = started.elapsed().as_secs_f64() * 1e3;
    span.in_scope(|| {
        tracing::debug!(
            http.method = %method,
            http.route = route.as_deref().unwrap_or("none"),
            http.status = status,
            http.duration_ms = duration_ms,
            "request answered"
        );
    });
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

fn given(request: &Request) -> Option<String> {
    let text = request.headers().get(HEADER)?.to_str().ok()?;
    let sane = (1..=SANE_LENGTH).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'));
    sane.then(|| text.to_owned())
}
