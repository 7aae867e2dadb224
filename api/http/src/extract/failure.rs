//! A problem on its way to the client.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use longshore_kernel::problem::Problem;

/// The error of every handler and extractor. It carries the problem to [`crate::middleware::problem`], the one place
/// that turns it into a body.
#[derive(Clone, Debug)]
pub struct Failure(pub Arc<Problem>);

impl<P: Into<Problem>> From<P> for Failure {
    fn from(problem: P) -> Self {
        Self(Arc::new(problem.into()))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() =
            StatusCode::from_u16(self.0.kind().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.extensions_mut().insert(self);
        response
    }
}
