//! Limits the size of the head of a request (431). The listener refuses a head of more than
//! [`longshore_serve::MOST_READ`] bytes while it arrives, with the same status and no body.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use longshore_kernel::problem::{HEADERS_TOO_LARGE, Problem};
use longshore_serve::{MAX_BYTES, MAX_FIELDS};

use crate::extract::Failure;

/// Refuses a head that is too large.
pub async fn layer(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let detail = if headers.len() > MAX_FIELDS {
        format!("the request has more than {MAX_FIELDS} header fields")
    } else if target + bytes > MAX_BYTES {
        format!("the target and the header fields together have more than {MAX_BYTES} bytes")
    } else {
        return next.run(request).await;
    };
    Failure::from(Problem::new(&HEADERS_TOO_LARGE, detail)).into_response()
}
