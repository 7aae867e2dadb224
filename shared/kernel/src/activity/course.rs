//! What happened in a stretch of time, step by step, for charts.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use sqlx::PgPool;

use super::Subject;
use crate::problem::Problem;
use crate::words;

words! {
    /// A stretch of time, cut into equal steps that end now.
    pub enum Span ("span") {
        /// The last hour, by the minute.
        Hour = "hour",
        /// The last six hours, by five minutes.
        SixHours = "six-hours",
        /// The last day, by the quarter of an hour.
        Day = "day",
        /// The last seven days, by two hours.
        Week = "week",
    }
}

impl Span {
    /// Minutes of a step.
    #[must_use]
    pub fn step_minutes(self) -> i32 {
        match self {
            Self::Hour => 1,
            Self::SixHours => 5,
            Self::Day => 15,
            Self::Week => 120,
        }
    }

    /// How many steps it has.
    #[must_use]
    pub fn steps(self) -> usize {
        match self {
            Self::Hour => 60,
            Self::SixHours => 72,
            Self::Day => 96,
            Self::Week => 84,
        }
    }
}

/// The equal steps of a span, which end now.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// Where the first one begins.
    pub from: DateTime<Utc>,
    /// Which span.
    pub span: Span,
    /// Minutes of a step.
    pub minutes: i32,
    /// How many there are.
    pub count: usize,
}

impl Steps {
    /// The steps of a span, none shorter than what is counted in it.
    pub async fn of(db: &PgPool, span: Span, shortest: i32) -> Result<Self, Problem> {
        let whole = span.step_minutes() * i32::try_from(span.steps()).map_err(Problem::internal)?;
        let minutes = span.step_minutes().max(shortest);
        let from = sqlx::query_scalar!(
            r#"SELECT date_bin(make_interval(mins => $1), now(), 'epoch') - make_interval(mins => $2 - $1) AS "from!""#,
            minutes,
            whole,
        )
        .fetch_one(db)
        .await?;
        let count = usize::try_from(whole / minutes).map_err(Problem::internal)?;
        Ok(Self { from, span, minutes, count })
    }

    /// The place of a step, if it has one.
    #[must_use]
    pub fn place(&self, place: i32) -> Option<usize> {
        usize::try_from(place).ok().filter(|place| *place < self.count)
    }

    /// One value for each step, from those that have any.
    pub fn filled<T: Clone + Default>(&self, found: impl Iterator<Item = (i32, T)>) -> Vec<T> {
        let mut all = vec![T::default(); self.count];
        for (place, value) in found {
            if let Some(place) = self.place(place) {
                all[place] = value;
            }
        }
        all
    }
}

/// What happened in one step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Jobs, turns, calls and tasks that succeeded, calls that delivered.
    pub good: i64,
    /// Everything else, except cancelled ones.
    pub bad: i64,
    /// Half of it took no longer, in milliseconds, up to a factor of two.
    pub median_ms: Option<f64>,
    /// 95 % of it took no longer.
    pub p95_ms: Option<f64>,
}

/// How much was waiting, at its worst in a step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waiting {
    /// Jobs that had not ended.
    pub jobs: i64,
    /// Deliveries that were due.
    pub deliveries: i64,
    /// For how long the oldest delivery had been due, in seconds.
    pub oldest_seconds: f64,
}

/// A span in steps, the oldest first.
#[derive(Clone, Debug)]
pub struct Course {
    /// Its steps.
    pub steps: Steps,
    /// Jobs.
    pub jobs: Vec<Point>,
    /// Calls to destinations.
    pub deliveries: Vec<Point>,
    /// Turns at partners.
    pub partners: Vec<Point>,
    /// Calls of the systems of warehouses.
    pub handovers: Vec<Point>,
    /// Tasks of the upkeep.
    pub upkeep: Vec<Point>,
    /// What was waiting; nothing without a sample.
    pub waiting: Vec<Option<Waiting>>,
}

/// Reads a span, up to now.
pub async fn read(db: &PgPool, span: Span) -> Result<Course, Problem> {
    let steps = Steps::of(db, span, 1).await?;
    let counted = sqlx::query!(
        r#"SELECT date_part('epoch', minute - $1)::int / ($2 * 60) AS "step!", subject, outcome, slot,
                  sum(count)::bigint AS "count!"
           FROM activity WHERE minute >= $1 GROUP BY 1, 2, 3, 4"#,
        steps.from,
        steps.minutes,
    )
    .fetch_all(db)
    .await?;
    let waited = sqlx::query!(
        r#"SELECT date_part('epoch', minute - $1)::int / ($2 * 60) AS "step!", max(jobs_open) AS "jobs!",
                  max(deliveries_due) AS "deliveries!", max(deliveries_oldest_seconds) AS "oldest_seconds!"
           FROM backlog WHERE minute >= $1 GROUP BY 1"#,
        steps.from,
        steps.minutes,
    )
    .fetch_all(db)
    .await?;
    let mut tallies = Subject::ALL.map(|subject| (subject.as_str(), vec![Tally::default(); steps.count]));
    for row in counted {
        // a later version may count something else
        let Some((_, tallies)) = tallies.iter_mut().find(|(subject, _)| *subject == row.subject) else {
            continue;
        };
        if let Some(place) = steps.place(row.step) {
            tallies[place].add(&row.outcome, row.slot, row.count);
        }
    }
    let waiting = steps.filled(waited.into_iter().map(|row| {
        let (jobs, deliveries, oldest_seconds) = (row.jobs, row.deliveries, row.oldest_seconds);
        (row.step, Some(Waiting { jobs, deliveries, oldest_seconds }))
    }));
    let [jobs, deliveries, partners, handovers, upkeep] =
        tallies.map(|(_, tallies)| tallies.iter().map(Tally::point).collect());
    Ok(Course { steps, jobs, deliveries, partners, handovers, upkeep, waiting })
}

#[derive(Clone, Debug, Default)]
struct Tally {
    good: i64,
    bad: i64,
    slots: BTreeMap<i16, i64>,
}

impl Tally {
    fn add(&mut self, outcome: &str, slot: i16, count: i64) {
        match outcome {
            "succeeded" | "delivered" => self.good += count,
            "cancelled" => return,
            _ => self.bad += count,
        }
        *self.slots.entry(slot).or_default() += count;
    }

    fn point(&self) -> Point {
        Point { good: self.good, bad: self.bad, median_ms: self.quantile(50), p95_ms: self.quantile(95) }
    }

    /// The end of the slot in which so many of a hundred are.
    fn quantile(&self, percent: i64) -> Option<f64> {
        let wanted = ((self.good + self.bad) * percent).div_euclid(100).max(1);
        let mut seen = 0;
        self.slots.iter().find_map(|(slot, count)| {
            seen += count;
            (seen >= wanted).then(|| 2_f64.powi(i32::from(*slot)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_ends_of_their_slots_and_cancelled_jobs_do_not_count() {
        let mut tally = Tally::default();
        tally.add("delivered", 3, 94);
        tally.add("failed", 10, 6);
        tally.add("cancelled", 20, 1_000);
        assert_eq!(tally.point(), Point { good: 94, bad: 6, median_ms: Some(8.0), p95_ms: Some(1024.0) });
        assert_eq!(Tally::default().point(), Point::default());
    }
}
