//! When a failed delivery is tried again: the schedule of `docs/reference/deliveries.md#retries` as data. Pure; the caller
//! provides the randomness.

use std::time::Duration;

const SECOND: u64 = 1;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The wait after each failed attempt, in seconds. After one more failure the delivery is exhausted.
const STEPS: [u64; 9] =
    [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];

/// How often a delivery is tried in all.
pub const ATTEMPTS: usize = STEPS.len() + 1;

/// By what part of itself a step is longer or shorter at most.
pub const JITTER: f64 = 0.2;

/// No delivery waits longer for its next attempt: the last step with its jitter.
pub const LONGEST_WAIT: Duration = Duration::from_secs(29 * HOUR);

/// How long to wait after so many failed attempts; nothing when that was the last.
///
/// `lot` in -1.0 to 1.0 places the wait within the jitter. A `Retry-After` of the destination makes it longer, by at
/// most the step that would come after.
#[must_use]
pub fn wait(failed_attempts: usize, retry_after: Option<Duration>, lot: f64) -> Option<Duration> {
    let index = failed_attempts.checked_sub(1)?;
    let step = Duration::from_secs(*STEPS.get(index)?);
    let next = Duration::from_secs(STEPS.get(index + 1).copied().unwrap_or(STEPS[STEPS.len() - 1]));
    let jittered = step.mul_f64(1.0 + JITTER * lot.clamp(-1.0, 1.0));
    Some(retry_after.map_or(jittered, |asked| jittered.max(asked.min(next))))
}

/// For how long a whole webhook is held at most because its destination asks for it: as long as the longest pause before a probe.
/// The header may be about one delivery only, and the others wait with it.
const LONGEST_HOLD: Duration = Duration::from_secs(5 * MINUTE);

/// For how long a destination is left alone that asks for it.
#[must_use]
pub fn hold(retry_after: Duration) -> Duration {
    retry_after.min(LONGEST_HOLD)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::calling::breaker::PAUSES;

    #[expect(clippy::unnecessary_wraps, reason = "it reads as what a header gave, or a wait came to")]
    fn seconds(n: u64) -> Option<Duration> {
        Some(Duration::from_secs(n))
    }

    #[test]
    fn the_steps_are_the_documented_ones_and_the_tenth_failure_is_the_last() {
        let waits: Vec<_> = (1..=ATTEMPTS).map(|n| wait(n, None, 0.0)).collect();
        let expected = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400].map(seconds);
        assert_eq!(waits[..9], expected);
        assert_eq!(waits[9], None);
        assert_eq!(wait(0, None, 0.0), None);
    }

    #[test]
    fn retry_after_lengthens_a_step_up_to_the_next() {
        assert_eq!(wait(1, seconds(2), 0.0), seconds(5));
        assert_eq!(wait(1, seconds(60), 0.0), seconds(60));
        assert_eq!(wait(1, seconds(9_999), 0.0), seconds(300));
        assert_eq!(wait(9, seconds(999_999), 0.0), seconds(86_400));
        assert_eq!(wait(10, seconds(60), 0.0), None);
    }

    #[test]
    fn a_destination_is_left_alone_for_as_long_as_it_asks_up_to_the_longest_pause_of_the_breaker() {
        assert_eq!(hold(Duration::from_secs(20)), Duration::from_secs(20));
        assert_eq!(hold(Duration::from_hours(24)), LONGEST_HOLD);
        assert_eq!(Some(LONGEST_HOLD), PAUSES.last().copied().map(Duration::from_secs_f64));
    }

    proptest! {
        #[test]
        fn a_wait_is_its_step_within_the_jitter_and_never_past_the_next(
            failed in 1usize..=9, lot in -1.0f64..=1.0, asked in proptest::option::of(0u64..1_000_000)
        ) {
            let asked = asked.map(Duration::from_secs);
            let base = wait(failed, None, 0.0).unwrap();
            let plain = wait(failed, None, lot).unwrap();
            prop_assert!(plain >= base.mul_f64(0.799_999) && plain <= base.mul_f64(1.200_001));
            let waited = wait(failed, asked, lot).unwrap();
            prop_assert!(waited >= plain && waited <= LONGEST_WAIT);
            let next = wait(failed + 1, None, 0.0).unwrap_or(base);
            prop_assert!(waited <= plain.max(next));
            if let Some(asked) = asked {
                prop_assert!(waited >= asked.min(next));
            }
        }
    }
}
