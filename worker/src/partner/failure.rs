//! Failures of a partner: each determines the fate of the chunk, and has a sentence for an operator.

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::{HeaderMap, StatusCode};
use longshore_domain::job::outcome::Fate;

use crate::outbound::{CallError, retry_after};

/// The longest wait between attempts that a partner may ask for.
const LONGEST_WISH: Duration = Duration::from_hours(1);

/// A failure of a partner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartnerError {
    /// It may pass: retried within the chunk, then by the job, each time as an attempt.
    #[error("{reason}")]
    Transient {
        /// The reason, for an operator.
        reason: String,
        /// How long the partner asks to wait.
        wait: Option<Duration>,
    },
    /// The partner refuses all calls until then: the job waits without using attempts.
    #[error("{reason}")]
    Blocked {
        /// The reason, for an operator.
        reason: String,
        /// When the block ends.
        until: DateTime<Utc>,
    },
    /// A limit that this service keeps is used up: the job waits without using attempts, and without a
    /// message.
    #[error("the partner may be asked again in {} s", .0.as_secs_f32())]
    Busy(Duration),
    /// Every attempt would fail until an operator acts: the sentence says what to do.
    #[error("{0}")]
    Permanent(String),
}

impl PartnerError {
    /// A failure that may pass.
    #[must_use]
    pub fn transient(reason: impl Into<String>) -> Self {
        Self::Transient { reason: reason.into(), wait: None }
    }

    /// The failure of a call without an answer; `partner` is the name of the called system.
    #[must_use]
    pub fn of_call(partner: &str, error: &CallError) -> Self {
        match error {
            CallError::Forbidden => Self::Permanent(format!(
                "{partner} has a private address, which must not be called: change baseUrl in the integration setting, or ask the operator of the service to allow the subnet"
            )),
            CallError::Insecure => Self::Permanent(format!("{partner}: {error}")),
            CallError::Timeout(_)
            | CallError::Connect(_)
            | CallError::Local(_)
            | CallError::Flooded
            | CallError::Broken(_) => Self::transient(format!("{partner} could not be read: {error}")),
        }
    }

    /// The failure that an unsuccessful status means.
    #[must_use]
    pub fn of_status(partner: &str, status: StatusCode, headers: &HeaderMap, now: DateTime<Utc>) -> Self {
        match status.as_u16() {
            401 | 403 => Self::Permanent(format!(
                "{partner} refuses the credentials (HTTP {}): store new ones in the integration setting",
                status.as_u16()
            )),
            300..=399 => Self::Permanent(format!(
                "{partner} answers with a redirect (HTTP {}), which is not followed: set baseUrl of the integration setting to its target",
                status.as_u16()
            )),
            404 | 410 => Self::Permanent(format!(
                "the address of {partner} was not found (HTTP {}): correct baseUrl in the integration setting",
                status.as_u16()
            )),
            408 | 425 | 429 | 500..=599 => Self::Transient {
                reason: format!("{partner} answers HTTP {}", status.as_u16()),
                wait: retry_after(headers, now).map(|wait| wait.min(LONGEST_WISH)),
            },
            other => Self::Permanent(format!("{partner} refuses the request (HTTP {other})")),
        }
    }

    /// The fate of the chunk that failed.
    #[must_use]
    pub fn into_fate(self) -> Fate {
        match self {
            Self::Transient { reason, wait: None } => Fate::Retry(reason),
            Self::Transient { reason, wait: Some(wait) } => Fate::RetryAfter(reason, wait),
            Self::Blocked { reason, until } => Fate::Pause { reason, until },
            Self::Busy(wait) => Fate::Snooze(wait),
            Self::Permanent(reason) => Fate::Discard(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::{DATE, RETRY_AFTER};

    use super::*;

    fn status(status: u16, headers: &[(http::HeaderName, &str)]) -> PartnerError {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        PartnerError::of_status("the feed", StatusCode::from_u16(status).unwrap(), &headers, now)
    }

    #[test]
    fn a_transient_status_is_retried_and_others_say_what_to_do() {
        for passing in [408, 425, 429, 500, 502, 503, 504] {
            assert!(matches!(status(passing, &[]), PartnerError::Transient { wait: None, .. }), "{passing}");
        }
        for (lasting, says) in [
            (401, "store new ones"),
            (403, "store new ones"),
            (301, "redirect"),
            (404, "baseUrl"),
            (400, "HTTP 400"),
        ] {
            let PartnerError::Permanent(sentence) = status(lasting, &[]) else { panic!("{lasting}") };
            assert!(sentence.contains(says), "{sentence}");
        }
    }

    #[test]
    fn a_retry_date_counts_from_the_partners_own_clock() {
        // its clock is years behind ours
        let asked = [(DATE, "Wed, 21 Oct 2015 07:28:00 GMT"), (RETRY_AFTER, "Wed, 21 Oct 2015 07:28:30 GMT")];
        let PartnerError::Transient { wait, .. } = status(503, &asked) else { panic!() };
        assert_eq!(wait, Some(Duration::from_secs(30)));
        let PartnerError::Transient { wait, .. } = status(429, &[(RETRY_AFTER, "99999999")]) else {
            panic!()
        };
        assert_eq!(wait, Some(LONGEST_WISH));
    }
}
