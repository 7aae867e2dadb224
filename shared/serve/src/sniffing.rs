//! Browsers guess no other media type than the one that an answer names, whatever answers.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderValue;
use http::header::X_CONTENT_TYPE_OPTIONS;

/// Adds `X-Content-Type-Options: nosniff` to every answer.
pub async fn layer(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
