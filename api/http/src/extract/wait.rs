//! `?wait=`: how long a request waits for what it reads.

use std::time::Duration;

use axum::extract::{FromRequestParts, Request};
use http::Uri;
use http::request::Parts;
use longshore_kernel::problem::Problem;
use url::form_urlencoded;

use super::Failure;
use super::headers::LONGEST_WAIT;
use super::query;

/// How long the caller waits at most; not at all without the parameter.
#[derive(Clone, Copy, Debug)]
pub struct WaitFor(pub Duration);

/// Whether a request waits: until it is answered, it is a stream of its account.
#[must_use]
pub fn is_waiting(request: &Request) -> bool {
    let uri = request.uri();
    let mut parameters = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    ["/api/job/", "/api/event-reader/"].iter().any(|path| uri.path().starts_with(path))
        && parameters.any(|(name, value)| name == "wait" && seconds(&value).is_ok_and(|time| !time.is_zero()))
}

/// Reads the parameter.
///
/// # Errors
/// It is no number of seconds, or too high.
pub fn seconds(value: &str) -> Result<Duration, Problem> {
    query::integer("wait", value, 0, LONGEST_WAIT, ": seconds").map(Duration::from_secs)
}

impl WaitFor {
    fn of(uri: &Uri) -> Result<Self, Problem> {
        let mut wait = Duration::ZERO;
        query::each(uri, &["wait"], |_, value| {
            wait = seconds(value)?;
            Ok(())
        })?;
        Ok(Self(wait))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for WaitFor {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Ok(Self::of(&parts.uri)?)
    }
}
