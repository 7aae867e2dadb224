//! Identifiers in paths.

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use longshore_shared::platform::ids::parse_id;
use longshore_shared::platform::problem::{INVALID_ID, Problem};
use uuid::Uuid;

use super::Failure;

/// The one identifier of a path.
#[derive(Clone, Copy, Debug)]
pub struct Id(pub Uuid);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = RawPathParams::from_request_parts(parts, state).await.map_err(Problem::internal)?;
        let (name, text) = params.iter().next().unwrap_or(("id", ""));
        parse_id(text).map(Self).ok_or_else(|| {
            Problem::new(
                &INVALID_ID,
                format!("{name} must be a UUID of 8-4-4-4-12 lowercase hexadecimal digits"),
            )
            .into()
        })
    }
}
