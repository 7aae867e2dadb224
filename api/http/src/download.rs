//! Answers that a browser stores as a file.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use longshore_kernel::problem::Problem;

/// A file of that name and media type. The name has letters, digits, `-` and `.` only.
pub fn download(name: &str, media: &'static str, body: Body) -> Result<Response, Problem> {
    let name = HeaderValue::try_from(format!("attachment; filename=\"{name}\"")).map_err(Problem::internal)?;
    let headers = [(CONTENT_TYPE, HeaderValue::from_static(media)), (CONTENT_DISPOSITION, name)];
    Ok((headers, body).into_response())
}
