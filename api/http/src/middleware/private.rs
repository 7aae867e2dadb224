//! Keeps answers of the API private: caches do not store them (except those that set `Cache-Control`
//! themselves), and browsers do not guess another media type.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};

/// Adds `Cache-Control: no-store`, unless the answer sets it, and `X-Content-Type-Options: nosniff`.
pub async fn layer(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
