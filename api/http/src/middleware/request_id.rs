//! The id of a request, its one log line, its metrics, and its span in a trace.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode};
use longshore_kernel::{ids, trace};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::app::App;
use crate::extract::RequestId;

/// The header of the id, in requests and answers.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of an id from the caller.
const SANE_LENGTH: usize = 64;

/// Gives the request its id (the caller's, if it is valid), and logs and measures its result.
pub async fn layer(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let _in_flight = app.services.metrics.request_begins();
    let id = RequestId(given(&request).unwrap_or_else(|| ids::new_id().to_string()).into());
    let (method, started) = (request.method().clone(), Instant::now());
    let route = request.extensions().get::<MatchedPath>().map(|p| p.as_str().to_owned());
    request.extensions_mut().insert(id.clone());
    let span = tracing::info_span!(
        "request", request.id = %id.0, trace.id = Empty, otel.kind = Empty, otel.name = Empty
    );
    // paths outside the API are polled by machines every few seconds, and need no traces
    let traced = trace::is_on() && route.as_deref().is_some_and(|route| route.starts_with("/api/"));
    if traced {
        begin_trace(&span, &request, route.as_deref().unwrap_or("none"));
    }
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status().as_u16();
    if traced {
        trace::note(&span, "http.response.status_code", i64::from(status));
        if response.status().is_server_error() {
            trace::fail(&span, "the service failed");
        }
    }
    let (took, route) = (started.elapsed(), route.as_deref().unwrap_or("none"));
    // other methods are the caller's choice, and must not create metrics without limit
    let counted = if response.status() == StatusCode::METHOD_NOT_ALLOWED { "none" } else { method.as_str() };
    app.services.metrics.request_answered(route, counted, status, took);
    span.in_scope(|| {
        tracing::debug!(
            http.method = %method,
            http.route = route,
            http.status = status,
            http.duration_ms = took.as_secs_f64() * 1e3,
            "request answered"
        );
    });
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

fn begin_trace(span: &Span, request: &Request, route: &str) {
    let method = request.method().as_str();
    span.record("otel.kind", "server").record("otel.name", format!("{method} {route}"));
    let parent = request.headers().get(trace::TRACEPARENT).and_then(|value| value.to_str().ok());
    trace::begin(span, parent);
    trace::note(span, "http.request.method", method.to_owned());
    trace::note(span, "http.route", route.to_owned());
}

fn given(request: &Request) -> Option<String> {
    let text = request.headers().get(HEADER)?.to_str().ok()?;
    let sane = (1..=SANE_LENGTH).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'));
    sane.then(|| text.to_owned())
}
