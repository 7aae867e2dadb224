//! Waiting between attempts, inside one process.
//!
//! The only module that uses the `backoff` crate; all retries use it. Waits that outlive a
//! request or a process do not belong here; they are rows with a due time in Postgres.
//!
//! - [`Backoff`] gives the waits of a loop that never gives up (a connection that must come back);
//! - [`retry`] repeats one operation a few times while its failures are [`Failure::Transient`].

use std::future::Future;
use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff as _;

/// Exponentially growing waits with jitter: each is drawn from ±50 % around a value that grows by half with every
/// wait, and none is longer than the maximum.
#[derive(Debug)]
pub struct Backoff {
    waits: ExponentialBackoff,
    max: Duration,
}

impl Backoff {
    /// Starts at about `initial` and stays at or below `max`, for ever.
    #[must_use]
    pub fn new(initial: Duration, max: Duration) -> Self {
        let initial = initial.min(max);
        let waits = ExponentialBackoff {
            current_interval: initial,
            initial_interval: initial,
            max_interval: max,
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        };
        Self { waits, max }
    }

    /// How long to wait before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        // `None` means "elapsed", which a backoff without a time limit never says.
        self.waits.next_backoff().map_or(self.max, |wait| wait.min(self.max))
    }

    /// An attempt succeeded: the next wait is short again.
    pub fn reset(&mut self) {
        self.waits.reset();
    }
}

/// How often, and with which waits, [`retry`] repeats an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all, the first included; zero counts as one.
    pub attempts: u32,
    /// The wait after the first failure, before jitter.
    pub initial: Duration,
    /// No wait is longer.
    pub max: Duration,
}

/// Why an operation failed, as far as trying again is concerned.
#[derive(Debug)]
pub enum Failure<E> {
    /// The next attempt may succeed (a deadlock, a cut connection).
    Transient(E),
    /// The other side has said when the next attempt may succeed.
    Later(E, Duration),
    /// Every attempt would fail like this one.
    Permanent(E),
}

/// Runs `op` until it succeeds, fails for good, or has failed [`RetryPolicy::attempts`] times.
///
/// # Errors
/// The error of the last attempt.
pub async fn retry<T, E, F, Fut>(policy: RetryPolicy, mut op: F) -> Result<T, E>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, Failure<E>>>,
{
    let mut backoff = Backoff::new(policy.initial, policy.max);
    let mut left = policy.attempts;
    loop {
        left = left.saturating_sub(1);
        match op().await {
            Ok(value) => return Ok(value),
            Err(Failure::Permanent(error)) => return Err(error),
            Err(Failure::Transient(error) | Failure::Later(error, _)) if left == 0 => return Err(error),
            Err(Failure::Later(_, wait)) => tokio::time::sleep(wait).await,
            Err(Failure::Transient(_)) => tokio::time::sleep(backoff.next_delay()).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy =
        RetryPolicy { attempts: 3, initial: Duration::from_micros(10), max: Duration::from_micros(50) };

    #[test]
    fn waits_grow_to_the_maximum_and_start_over_after_a_success() {
        let (initial, max) = (Duration::from_millis(50), Duration::from_secs(1));
        let mut backoff = Backoff::new(initial, max);
        let first = backoff.next_delay();
        assert!(first >= initial / 2 && first <= initial * 3 / 2, "{first:?}");
        let late: Vec<_> = (0..50).map(|_| backoff.next_delay()).skip(20).collect();
        assert!(late.iter().all(|wait| *wait >= max / 2 && *wait <= max), "{late:?}");
        backoff.reset();
        assert!(backoff.next_delay() <= initial * 3 / 2);
    }

    #[test]
    fn an_initial_wait_above_the_maximum_is_cut_to_it() {
        let mut backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(1));
        assert!(backoff.next_delay() <= Duration::from_secs(1));
    }

    #[tokio::test]
    async fn a_transient_failure_is_tried_again_until_it_succeeds() {
        let mut calls = 0;
        let result: Result<u32, &str> = retry(POLICY, || {
            calls += 1;
            let outcome = if calls < 3 { Err(Failure::Transient("busy")) } else { Ok(calls) };
            async move { outcome }
        })
        .await;
        assert_eq!(result, Ok(3));
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_that_the_other_side_asks_for_is_kept() {
        let begun = tokio::time::Instant::now();
        let mut calls = 0;
        let result: Result<u32, &str> = retry(POLICY, || {
            calls += 1;
            let wait = Duration::from_secs(7);
            let outcome = if calls < 3 { Err(Failure::Later("busy", wait)) } else { Ok(calls) };
            async move { outcome }
        })
        .await;
        assert_eq!(result, Ok(3));
        assert_eq!(begun.elapsed().as_secs(), 14);
    }

    #[tokio::test]
    async fn attempts_are_bounded_and_the_last_error_is_returned() {
        let mut calls = 0;
        let result: Result<(), u32> = retry(POLICY, || {
            calls += 1;
            let outcome = Err(Failure::Transient(calls));
            async move { outcome }
        })
        .await;
        assert_eq!((result, calls), (Err(3), 3));
    }

    #[tokio::test]
    async fn a_permanent_failure_is_not_tried_again() {
        let mut calls = 0;
        let result: Result<(), &str> = retry(POLICY, || {
            calls += 1;
            async { Err(Failure::Permanent("refused")) }
        })
        .await;
        assert_eq!((result, calls), (Err("refused"), 1));
    }
}
