//! Names in paths.

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use longshore_shared::platform::problem::Problem;

use super::Failure;

/// The one name of a path, as it came; who takes it says whether there is such a thing.
#[derive(Clone, Debug)]
pub struct Segment(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = RawPathParams::from_request_parts(parts, state).await.map_err(Problem::internal)?;
        let name = params.iter().next().map_or_else(String::new, |(_, name)| name.to_owned());
        Ok(Self(name))
    }
}
