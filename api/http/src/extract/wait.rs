//! `?wait=`: how long a request waits for the end of what it reads.

use std::time::Duration;

use axum::extract::{FromRequestParts, Request};
use http::Uri;
use http::request::Parts;
use longshore_kernel::problem::Problem;
use url::form_urlencoded;

use super::Failure;
use super::headers::LONGEST_WAIT;

/// How long the caller waits at most; not at all without the parameter.
#[derive(Clone, Copy, Debug)]
pub struct WaitFor(pub Duration);

/// Whether a request waits: until it is answered, it is a stream of its account.
#[must_use]
pub fn is_waiting(request: &Request) -> bool {
    request.uri().path().starts_with("/api/job/")
        && WaitFor::of(request.uri()).is_ok_and(|WaitFor(time)| !time.is_zero())
}

impl WaitFor {
    fn of(uri: &Uri) -> Result<Self, Problem> {
        let mut wait = Duration::ZERO;
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            if name != "wait" {
                let message = "is not a query parameter of this operation; it takes wait";
                return Err(Problem::violation(name, "unknown_field", message));
            }
            let seconds = value.parse().ok().filter(|seconds| *seconds <= LONGEST_WAIT);
            let message = || format!("must be an integer between 0 and {LONGEST_WAIT}: seconds");
            let seconds = seconds.ok_or_else(|| Problem::violation("wait", "out_of_range", message()))?;
            wait = Duration::from_secs(seconds);
        }
        Ok(Self(wait))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for WaitFor {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Ok(Self::of(&parts.uri)?)
    }
}
