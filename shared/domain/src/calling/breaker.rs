//! The breaker of a lane: a destination that fails again and again is asked by one call at a time whether it is back
//! (`docs/reference/deliveries.md#breaker`).
//!
//! ```text
//!              THRESHOLD failures in a row
//!   ┌────────┐ ───────────────────────────▶ ┌──────┐  probe failed: a longer pause
//!   │ Closed │                              │ Open │ ◀─┐
//!   └────────┘ ◀─────────────────────────── └──────┘ ──┘
//!                        a success
//! ```
//!
//! While it is closed the lane sends as it likes. While it is open nothing is sent until the pause is over; then one
//! call, which is the *probe*. Only the probe spends an attempt: the backlog waits as it is, however long that takes.
//! A success closes the breaker, and the same turn continues with the backlog.
//!
//! Here is the machine itself, pure. The turn of a worker steps it call by call; [`lane::record`](crate::webhook::lane::record())
//! holds the same machine in SQL, which steps it by the [`Tally`] of a whole group of outcomes, since the record belongs to
//! no single worker. That both come to the same is a property below, and a test of the statement.

use std::time::Duration;

/// Failures in a row that open the breaker.
pub const THRESHOLD: u32 = 5;

/// The pause before each probe, in seconds: the first after the opening, the next after each failed probe. The last stays.
pub const PAUSES: [f64; 7] = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0];

/// By what part of itself a pause is longer or shorter at most: destinations that failed together are not probed together.
pub const JITTER: f64 = 0.2;

/// The state of a lane towards its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaker {
    /// Sends.
    Closed {
        /// Failures since the last success; fewer than [`THRESHOLD`].
        failures: u32,
    },
    /// Probes.
    Open {
        /// Failures since the last success.
        failures: u32,
        /// Probes that have failed since it opened.
        probes: u32,
    },
}

/// What a call says about its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The destination took the delivery.
    Success,
    /// It did not.
    Failure {
        /// The call was a probe. Those that were under way when the breaker opened were none.
        probe: bool,
    },
}

/// Signs of one lane, in the order in which they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// There was a success.
    pub succeeded: bool,
    /// Failures after the last success.
    pub failures: u32,
    /// Probes among these.
    pub probes: u32,
}

impl Tally {
    /// Counts one more.
    pub fn add(&mut self, sign: Sign) {
        match sign {
            Sign::Success => *self = Self { succeeded: true, failures: 0, probes: 0 },
            Sign::Failure { probe } => {
                self.failures = self.failures.saturating_add(1);
                self.probes = self.probes.saturating_add(u32::from(probe));
            }
        }
    }
}

impl Breaker {
    /// As it is stored: failures in a row, and failed probes where it is open.
    #[must_use]
    pub fn stored(failures: u32, probes: Option<u32>) -> Self {
        match probes {
            Some(probes) => Self::Open { failures, probes },
            None => Self::Closed { failures },
        }
    }

    /// Whether the lane sends one probe at a time.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// Whether the next probe is a delivery that was tried before, if one is due. Every second one is: a destination may fail
    /// the first attempt of each delivery, and a failed delivery goes to the end of the row.
    #[must_use]
    pub fn probes_again(self) -> bool {
        matches!(self, Self::Open { probes, .. } if probes % 2 == 1)
    }

    /// Whether its last call failed.
    #[must_use]
    pub fn has_failed(self) -> bool {
        !matches!(self, Self::Closed { failures: 0 })
    }

    /// What becomes of it.
    #[must_use]
    pub fn after(self, tally: Tally) -> Self {
        let (before, open) = match self {
            _ if tally.succeeded => (0, None),
            Self::Closed { failures } => (failures, None),
            Self::Open { failures, probes } => (failures, Some(probes)),
        };
        let failures = before.saturating_add(tally.failures);
        // an open one stays open regardless of the threshold, which may have been different when it opened
        if open.is_none() && (tally.failures == 0 || failures < THRESHOLD) {
            Self::Closed { failures }
        } else {
            Self::Open { failures, probes: open.unwrap_or(0).saturating_add(tally.probes) }
        }
    }

    /// What becomes of it by one call.
    #[must_use]
    pub fn step(self, sign: Sign) -> Self {
        let mut tally = Tally::default();
        tally.add(sign);
        self.after(tally)
    }
}

/// The pause before the next probe after so many failed ones; `lot` in -1.0 to 1.0 places it within the jitter.
#[must_use]
pub fn pause(probes: u32, lot: f64) -> Duration {
    let index = usize::try_from(probes).unwrap_or(usize::MAX).min(PAUSES.len() - 1);
    Duration::from_secs_f64(PAUSES[index] * jittered(lot))
}

/// The factor of a pause.
#[must_use]
pub fn jittered(lot: f64) -> f64 {
    1.0 + JITTER * lot.clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLOSED: Breaker = Breaker::Closed { failures: 0 };
    const FAILURE: Sign = Sign::Failure { probe: false };
    const FAILED_PROBE: Sign = Sign::Failure { probe: true };

    #[test]
    fn the_fifth_failure_in_a_row_opens_it_and_a_success_closes_it() {
        let mut breaker = CLOSED;
        for failures in 1..THRESHOLD {
            breaker = breaker.step(FAILURE);
            assert_eq!(breaker, Breaker::Closed { failures });
        }
        assert_eq!(breaker.step(Sign::Success), CLOSED);
        breaker = breaker.step(FAILURE);
        assert_eq!(breaker, Breaker::Open { failures: THRESHOLD, probes: 0 });
        assert_eq!(breaker.step(Sign::Success), CLOSED);
    }

    #[test]
    fn a_failed_probe_extends_the_pause_and_a_call_begun_before_does_not() {
        let open = Breaker::Open { failures: 5, probes: 0 };
        assert_eq!(open.step(FAILURE), Breaker::Open { failures: 6, probes: 0 });
        assert_eq!(open.step(FAILED_PROBE), Breaker::Open { failures: 6, probes: 1 });
        let pauses: Vec<_> = (0..9).map(|probes| pause(probes, 0.0).as_secs()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    }

    /// Signs as a lane gives them: probes while it is open, beside what was under way before.
    fn signs() -> impl Strategy<Value = Vec<Sign>> {
        proptest::collection::vec((0u8..10, any::<bool>()), 0..60).prop_map(|lots| {
            let mut breaker = CLOSED;
            let sign = |(lot, late): (u8, bool)| {
                let sign = match lot {
                    0 => Sign::Success,
                    _ => Sign::Failure { probe: breaker.is_open() && !late },
                };
                breaker = breaker.step(sign);
                sign
            };
            lots.into_iter().map(sign).collect()
        })
    }

    proptest! {
        #[test]
        fn it_is_open_exactly_when_the_last_calls_all_failed(signs in signs()) {
            let mut breaker = CLOSED;
            let mut in_a_row = 0;
            for sign in signs {
                breaker = breaker.step(sign);
                in_a_row = if sign == Sign::Success { 0 } else { in_a_row + 1 };
                prop_assert_eq!(breaker.is_open(), in_a_row >= THRESHOLD);
            }
        }

        #[test]
        fn groups_of_signs_come_to_the_same_as_each_by_itself(
            signs in signs(), cuts in proptest::collection::vec(1usize..12, 1..60)
        ) {
            let single = signs.iter().fold(CLOSED, |breaker, sign| breaker.step(*sign));
            let mut grouped = CLOSED;
            let mut rest = &signs[..];
            for cut in cuts.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (group, others) = rest.split_at(cut.min(rest.len()));
                let mut tally = Tally::default();
                for sign in group {
                    tally.add(*sign);
                }
                grouped = grouped.after(tally);
                rest = others;
            }
            prop_assert_eq!(grouped, single);
        }

        #[test]
        fn a_pause_is_its_step_within_the_jitter_and_never_shrinks(probes in any::<u32>(), lot in -1.0f64..=1.0) {
            let (plain, placed) = (pause(probes, 0.0), pause(probes, lot));
            prop_assert!(placed >= plain.mul_f64(0.799) && placed <= plain.mul_f64(1.201));
            prop_assert!(pause(probes.saturating_add(1), 0.0) >= plain);
        }
    }
}
