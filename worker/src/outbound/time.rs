//! The times that an answer names.

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::HeaderMap;
use http::header::{DATE, HeaderName, RETRY_AFTER};
use longshore_http_time as http_time;

/// A date that an answer names.
#[must_use]
pub fn date(headers: &HeaderMap, name: &HeaderName, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    http_time::date(headers.get(name)?.to_str().ok()?, now)
}

/// How long the other side asks to wait. A date counts from its own clock, if it sends it, since clocks differ.
#[must_use]
pub fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let since = date(headers, &DATE, now).unwrap_or(now);
    http_time::retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?, since)
}
