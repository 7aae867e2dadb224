//! Transfer codings. HTTP/1.1 frames a body with `chunked`, and every other coding changes its bytes: a body that is
//! compressed in transfer would be read as it is, so it is refused (501; RFC 9112, section 6.1).

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::TRANSFER_ENCODING;
use longshore_kernel::problem::{Problem, UNSUPPORTED_TRANSFER_ENCODING};

use crate::extract::Failure;

/// Refuses a body with another coding than `chunked`.
pub async fn layer(request: Request, next: Next) -> Response {
    if is_supported(request.headers()) {
        return next.run(request).await;
    }
    let detail =
        "Transfer-Encoding must be chunked, or be left out; a compressed body has a Content-Encoding";
    Failure::from(Problem::new(&UNSUPPORTED_TRANSFER_ENCODING, detail)).into_response()
}

fn is_supported(headers: &HeaderMap) -> bool {
    let mut named = headers.get_all(TRANSFER_ENCODING).into_iter();
    match (named.next(), named.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        _ => false,
    }
}
