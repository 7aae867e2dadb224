//! Names in paths.

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use longshore_kernel::problem::{NOT_FOUND, Problem};

use super::Failure;

/// The last parameter of a path, unparsed.
#[derive(Clone, Debug)]
pub struct Segment(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let params = params(parts).await?.map_err(|name| nothing(&name))?;
        Ok(Self(params.iter().last().map_or("", |(_, text)| text).to_owned()))
    }
}

/// The parameters of a path, or the name of one that is not UTF-8 after percent-decoding.
pub(super) async fn params(parts: &mut Parts) -> Result<Result<RawPathParams, String>, Problem> {
    match RawPathParams::from_request_parts(parts, &()).await {
        Ok(params) => Ok(Ok(params)),
        Err(RawPathParamsRejection::InvalidUtf8InPathParam(error)) => {
            // axum gives the name only in its message: Invalid UTF-8 in `name`
            Ok(Err(error.body_text().split('`').nth(1).unwrap_or("segment").to_owned()))
        }
        Err(rejection) => Err(Problem::internal(rejection)),
    }
}

/// The problem of a parameter that is not UTF-8, which cannot name anything.
pub(super) fn nothing(name: &str) -> Problem {
    Problem::new(&NOT_FOUND, format!("the {name} in the path is not valid UTF-8"))
}
