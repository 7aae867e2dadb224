//! When a call that failed is made again (`docs/reference/orders.md#calls-of-a-warehouse`): soon, then less and less often, without
//! an end. Pure; the caller provides the randomness.

use std::time::Duration;

use crate::webhook::schedule::JITTER;

/// The wait after each failed call, in seconds; the last stays.
const STEPS: [u64; 7] = [5, 15, 30, 60, 120, 300, LONGEST];

/// The longest wait, and that after an answer that says that the call itself is wrong.
const LONGEST: u64 = 15 * 60;

/// The longest pause that a `Retry-After` gets.
const LONGEST_HOLD: Duration = Duration::from_hours(1);

/// How long to wait after so many failed calls; `lot` in -1.0 to 1.0 places the wait within the jitter.
#[must_use]
pub fn wait(failed: usize, retry_after: Option<Duration>, is_ours: bool, lot: f64) -> Duration {
    let step = if is_ours { LONGEST } else { STEPS[failed.saturating_sub(1).min(STEPS.len() - 1)] };
    let jittered = Duration::from_secs(step).mul_f64(1.0 + JITTER * lot.clamp(-1.0, 1.0));
    let jittered = jittered.min(Duration::from_secs(LONGEST));
    retry_after.map_or(jittered, |asked| jittered.max(hold(asked)))
}

/// For how long a system is left alone that asks for it.
#[must_use]
pub fn hold(retry_after: Duration) -> Duration {
    retry_after.min(LONGEST_HOLD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_from_five_seconds_to_a_quarter_of_an_hour_and_stay_there() {
        let waits: Vec<_> = (1..=9).map(|failed| wait(failed, None, false, 0.0).as_secs()).collect();
        assert_eq!(waits, [5, 15, 30, 60, 120, 300, 900, 900, 900]);
        assert_eq!(wait(usize::MAX, None, false, 1.0), Duration::from_mins(15));
        assert_eq!(wait(1, None, false, -1.0), Duration::from_secs(4));
    }

    #[test]
    fn a_call_that_is_wrong_is_made_again_a_quarter_of_an_hour_later() {
        assert_eq!(wait(1, None, true, 0.0), Duration::from_mins(15));
    }

    #[test]
    fn retry_after_lengthens_a_wait_up_to_an_hour() {
        assert_eq!(wait(1, Some(Duration::from_secs(2)), false, 0.0), Duration::from_secs(5));
        assert_eq!(wait(1, Some(Duration::from_secs(90)), false, 0.0), Duration::from_secs(90));
        assert_eq!(wait(1, Some(Duration::from_hours(9)), false, 0.0), Duration::from_hours(1));
    }
}
