//! When a call is repeated, and after which wait.

use std::time::Duration;

use reqwest::StatusCode;
use uuid::Uuid;

/// When a call is repeated.
///
/// A call is repeated after a 503, and after a 429 with `Retry-After`, for as long as it has attempts left.
/// Without an answer it is not repeated. All attempts carry the same `Idempotency-Key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Attempts in all, including the first; 1 or less: the call is never repeated.
    pub attempts: u32,
    /// The wait after the first 503 without `Retry-After`, before a jitter of ±50 %. It grows by half with
    /// every further one.
    pub initial: Duration,
    /// The longest wait after a 503 without `Retry-After`.
    pub max: Duration,
    /// The longest wait for which `Retry-After` is followed; a longer one is cut to this.
    pub max_retry_after: Duration,
}

impl Default for RetryPolicy {
    /// Six attempts in all, with waits of 250 ms to 10 s, or of `Retry-After` up to a minute.
    fn default() -> Self {
        Self {
            attempts: 6,
            initial: Duration::from_millis(250),
            max: Duration::from_secs(10),
            max_retry_after: Duration::from_mins(1),
        }
    }
}

impl RetryPolicy {
    /// Never repeats a call.
    #[must_use]
    pub fn never() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// The same with another number of attempts, including the first.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// How long to wait before a call with this answer is repeated; `None`: it is not.
    pub(crate) fn wait(
        &self,
        status: StatusCode,
        retry_after: Option<Duration>,
        waits: &mut Waits,
    ) -> Option<Duration> {
        match (status, retry_after) {
            (StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS, Some(wait)) => {
                Some(wait.min(self.max_retry_after))
            }
            (StatusCode::SERVICE_UNAVAILABLE, None) => Some(waits.next()),
            _ => None,
        }
    }

    pub(crate) fn waits(&self) -> Waits {
        Waits { initial: self.initial.min(self.max), next: self.initial.min(self.max), max: self.max }
    }
}

/// Growing waits with jitter.
#[derive(Debug)]
pub(crate) struct Waits {
    initial: Duration,
    next: Duration,
    max: Duration,
}

impl Waits {
    pub(crate) fn next(&mut self) -> Duration {
        #[expect(clippy::disallowed_methods, reason = "this crate has no other source of randomness")]
        let lot = f64::from(Uuid::new_v4().as_fields().0) / f64::from(u32::MAX);
        let wait = self.next.mul_f64(0.5 + lot).min(self.max);
        self.next = self.next.mul_f64(1.5).min(self.max);
        wait
    }

    /// Makes the next wait short again.
    pub(crate) fn reset(&mut self) {
        self.next = self.initial;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_busy_service_is_called_again_and_for_as_long_as_it_says() {
        let policy = RetryPolicy::default();
        let mut waits = policy.waits();
        let mut wait =
            |status, seconds: Option<u64>| policy.wait(status, seconds.map(Duration::from_secs), &mut waits);
        let (busy, limited) = (StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(wait(busy, Some(7)), Some(Duration::from_secs(7)));
        assert_eq!(wait(limited, Some(3_600)), Some(policy.max_retry_after));
        assert!(wait(busy, None).is_some_and(|wait| wait <= policy.initial * 3 / 2));
        assert_eq!(wait(limited, None), None);
        assert_eq!(wait(StatusCode::INTERNAL_SERVER_ERROR, Some(1)), None);
        assert_eq!(wait(StatusCode::CONFLICT, Some(1)), None);
    }

    #[test]
    fn waits_grow_to_the_maximum_and_start_over() {
        let policy = RetryPolicy::default();
        let mut waits = policy.waits();
        let first = waits.next();
        assert!(first >= policy.initial / 2 && first <= policy.initial * 3 / 2, "{first:?}");
        let late: Vec<_> = (0..50).map(|_| waits.next()).skip(20).collect();
        assert!(late.iter().all(|wait| *wait >= policy.max / 2 && *wait <= policy.max), "{late:?}");
        waits.reset();
        assert!(waits.next() <= policy.initial * 3 / 2);
    }
}
