//! Names in paths.

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use longshore_shared::platform::problem::Problem;

use super::Failure;

/// The last parameter of a path, as it came.
#[derive(Clone, Debug)]
pub struct Segment(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = RawPathParams::from_request_parts(parts, state).await.map_err(Problem::internal)?;
        Ok(Self(params.iter().last().map_or("", |(_, text)| text).to_owned()))
    }
}
