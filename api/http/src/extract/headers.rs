//! Request headers that change what an operation does.

use std::convert::Infallible;
use std::ops::Deref;
use std::time::Duration;

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::header::{ACCEPT, IF_MATCH, IF_NONE_MATCH};
use http::request::Parts;
use longshore_kernel::precondition::Precondition;
use longshore_kernel::problem::{INVALID_HEADER, Problem};

use super::Failure;

/// The versions from which an update may start.
#[derive(Clone, Debug, Default)]
pub struct IfMatch(Precondition);

impl Deref for IfMatch {
    type Target = Precondition;

    fn deref(&self) -> &Precondition {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        if !parts.headers.contains_key(IF_MATCH) {
            return Ok(Self::default());
        }
        let tags: Vec<_> = values(&parts.headers, IF_MATCH.as_str()).map(version_tag).collect();
        let is_readable = parts.headers.get_all(IF_MATCH).iter().all(|value| value.to_str().is_ok());
        match tags.into_iter().collect::<Option<Vec<_>>>() {
            Some(tags) if is_readable && !tags.is_empty() => Ok(Self(Precondition::of(tags))),
            _ => {
                let detail = "If-Match must be the ETag of a record, in its quotes, or *";
                Err(Problem::new(&INVALID_HEADER, detail).into())
            }
        }
    }
}

/// A tag as the service sends it. A proxy that compresses marks it as weak, but it still names one version.
fn version_tag(tag: &str) -> Option<String> {
    let strong = tag.strip_prefix("W/").unwrap_or(tag);
    let is_quoted = strong.len() >= 2 && strong.starts_with('"') && strong.ends_with('"');
    (tag == "*" || is_quoted).then(|| strong.to_owned())
}

/// The versions that the caller already has.
#[derive(Clone, Debug, Default)]
pub struct IfNoneMatch(Vec<String>);

impl IfNoneMatch {
    /// Whether the caller has this version. Tags are compared weakly (RFC 9110, section 13.1.2).
    #[must_use]
    pub fn has(&self, etag: &str) -> bool {
        self.0.iter().any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IfNoneMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(values(&parts.headers, IF_NONE_MATCH.as_str()).map(str::to_owned).collect()))
    }
}

/// Whether the caller wants a page for people: it is a browser.
#[derive(Clone, Copy, Debug)]
pub struct WantsPage(pub bool);

impl<S: Send + Sync> FromRequestParts<S> for WantsPage {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let is_page = |range: &str| {
            range.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/html")
        };
        Ok(Self(values(&parts.headers, ACCEPT.as_str()).any(is_page)))
    }
}

/// How long the caller wants to wait for a job (RFC 7240).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefer(pub Option<Wait>);

/// A preference for waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// `respond-async`: do not wait.
    Not,
    /// `wait=n`: wait up to this long.
    UpTo(Duration),
}

/// The longest wait, in seconds (`docs/reference/jobs.md#waiting-for-a-job`).
pub(super) const LONGEST_WAIT: u64 = 60;

impl Prefer {
    /// How long to wait, if the operation itself would wait for `default`.
    #[must_use]
    pub fn wait(self, default: Duration) -> Duration {
        match self.0 {
            None => default,
            Some(Wait::Not) => Duration::ZERO,
            Some(Wait::UpTo(limit)) => limit,
        }
    }

    /// Value of `Preference-Applied`.
    #[must_use]
    pub fn applied(self) -> Option<String> {
        match self.0? {
            Wait::Not => Some("respond-async".to_owned()),
            Wait::UpTo(limit) => Some(format!("wait={}", limit.as_secs())),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Prefer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // RFC 7240, section 2: unknown preferences are ignored, and the first of a kind counts
        let mut wait = None;
        for preference in values(&parts.headers, "prefer") {
            let preference = preference.split(';').next().unwrap_or_default().trim();
            let (name, value) =
                preference.split_once('=').map_or((preference, ""), |(n, v)| (n.trim(), v.trim()));
            if name.eq_ignore_ascii_case("respond-async") {
                // together with `wait` it adds nothing: the answer is asynchronous when the time is up
                wait = wait.or(Some(Wait::Not));
            } else if name.eq_ignore_ascii_case("wait")
                && let Ok(seconds) = value.trim_matches('"').parse::<u64>()
                && !matches!(wait, Some(Wait::UpTo(_)))
            {
                wait = Some(Wait::UpTo(Duration::from_secs(seconds.min(LONGEST_WAIT))));
            }
        }
        Ok(Self(wait))
    }
}

fn values<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use axum::extract::Request;

    use super::*;

    async fn prefer(values: &[&str]) -> Prefer {
        let mut request = Request::builder();
        for value in values {
            request = request.header("Prefer", *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        let Ok(prefer) = Prefer::from_request_parts(&mut parts, &()).await;
        prefer
    }

    #[tokio::test]
    async fn preferences_are_read_as_rfc_7240_defines_them() {
        let seconds = |n| Prefer(Some(Wait::UpTo(Duration::from_secs(n))));
        assert_eq!(prefer(&[]).await, Prefer(None));
        assert_eq!(prefer(&["respond-async"]).await, Prefer(Some(Wait::Not)));
        assert_eq!(prefer(&["wait=5"]).await, seconds(5));
        assert_eq!(prefer(&["respond-async, wait=5"]).await, seconds(5));
        assert_eq!(prefer(&["wait=5", "respond-async"]).await, seconds(5));
        assert_eq!(prefer(&["wait=9999"]).await, seconds(60));
        assert_eq!(prefer(&["wait=5, wait=7"]).await, seconds(5));
        assert_eq!(prefer(&["wait=soon"]).await, Prefer(None));
        assert_eq!(prefer(&["handling=lenient"]).await, Prefer(None));
    }
}
