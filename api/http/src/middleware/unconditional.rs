//! Refuses `If-Match` where an operation does not support it: the caller would take a change for conditional that is not
//! (RFC 9110, section 13.1.1).

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::IF_MATCH;
use longshore_kernel::problem::{INVALID_HEADER, Problem};

use crate::extract::Failure;

/// Refuses a request with the header.
pub async fn layer(request: Request, next: Next) -> Response {
    if request.headers().contains_key(IF_MATCH) {
        let detail = "this operation does not support If-Match";
        return Failure::from(Problem::new(&INVALID_HEADER, detail)).into_response();
    }
    next.run(request).await
}
