//! The difference between the clock of this process and that of Postgres, as last measured.
//!
//! Receivers refuse a webhook whose time differs from theirs, so a worker with a wrong clock could deliver nothing: it
//! compares its clock itself, and signs with the time of Postgres.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use chrono::{DateTime, Utc};

use super::clock::Clock;
use super::database::Database;
use super::problem::Problem;

/// From so many milliseconds on, a clock is wrong.
const WRONG: i64 = 5_000;

/// The offset of the clock; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Skew(Arc<AtomicI64>);

impl Skew {
    /// By how many seconds the clock of this process is ahead of that of Postgres, or behind it (negative).
    #[must_use]
    pub fn seconds(&self) -> f64 {
        std::time::Duration::from_millis(self.0.load(Relaxed).unsigned_abs()).as_secs_f64()
            * if self.0.load(Relaxed) < 0 { -1.0 } else { 1.0 }
    }

    /// Whether it differs by more than five seconds.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.0.load(Relaxed).abs() > WRONG
    }

    /// Asks Postgres for its time; says in the log when the clock begins to be wrong, and when it is right again.
    pub async fn look(&self, db: &Database, clock: &Clock) -> Result<(), Problem> {
        let before = clock.now();
        let theirs = sqlx::query_scalar!(r#"SELECT clock_timestamp() AS "now!""#).fetch_one(&db.main).await?;
        self.note(before, theirs, clock.now());
        Ok(())
    }

    /// Between `before` and `after` by the clock of this process, it was `theirs` by that of Postgres.
    fn note(&self, before: DateTime<Utc>, theirs: DateTime<Utc>, after: DateTime<Utc>) {
        let was = self.is_wrong();
        // the least that it can be, whenever between the two Postgres looked
        let ahead = if theirs < before {
            before - theirs
        } else if theirs > after {
            after - theirs
        } else {
            chrono::TimeDelta::zero()
        };
        self.0.store(ahead.num_milliseconds(), Relaxed);
        match (was, self.is_wrong()) {
            (false, true) => tracing::warn!(
                clock.ahead_s = self.seconds(),
                "the clock of this machine differs from that of Postgres; synchronise both with NTP"
            ),
            (true, false) => tracing::info!("the clock of this machine agrees with that of Postgres again"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_clock_is_wrong_by_more_than_the_time_that_it_took_to_ask() {
        let (skew, now) = (Skew::default(), DateTime::UNIX_EPOCH);
        let seconds = TimeDelta::seconds;
        skew.note(now, now + seconds(3), now + seconds(20));
        assert!(!skew.is_wrong() && skew.seconds().abs() < 0.001);
        skew.note(now, now - seconds(600), now + seconds(1));
        assert!(skew.is_wrong() && (skew.seconds() - 600.0).abs() < 0.001);
        skew.note(now, now + seconds(31), now + seconds(1));
        assert!(skew.is_wrong() && (skew.seconds() + 30.0).abs() < 0.001);
        skew.note(now, now + seconds(4), now);
        assert!(!skew.is_wrong());
    }
}
