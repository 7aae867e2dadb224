//! Keeps answers of the API private: caches do not store them, except those that set `Cache-Control` themselves.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderValue;
use http::header::CACHE_CONTROL;

/// Adds `Cache-Control: no-store`, unless the answer sets it.
pub async fn layer(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
