//! Activity by the minute, for charts: ended jobs, calls to destinations, partners and warehouses, tasks of the upkeep, and how much
//! was waiting. Also the results and the durations of the calls of each destination, by five minutes.
//!
//! A process counts what it does in memory and adds it to the minute's rows every few seconds, so that a chart costs almost
//! nothing to store and to draw, at any load. It is for charts, not for accounting: a process that is killed loses its last
//! seconds of counts, and a count belongs to the minute in which it is written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::PgPool;

use super::problem::Problem;

use crate::ids::WebhookId;

/// How often a process adds what it has counted.
pub const WRITTEN_EVERY: Duration = Duration::from_secs(5);
/// Minutes of a row about the calls of a destination; older ones are summed up by the hour.
pub const CALLS_MINUTES: i32 = 5;
/// Hours over which the calls of a destination are counted.
pub const CALLS_HOURS: i32 = 24;
/// The longest distinguished duration is 2^31 milliseconds: 24 days.
const LAST_SLOT: u32 = 31;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Jobs that ended.
    Job,
    /// Calls to destinations.
    Delivery,
    /// Turns at partners.
    Partner,
    /// Calls of the systems of warehouses.
    Handover,
    /// Tasks of the upkeep.
    Upkeep,
}

impl Subject {
    /// Every subject.
    const ALL: [Self; 5] = [Self::Job, Self::Delivery, Self::Partner, Self::Handover, Self::Upkeep];

    /// As it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Delivery => "delivery",
            Self::Partner => "partner",
            Self::Handover => "handover",
            Self::Upkeep => "upkeep",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    subject: Subject,
    outcome: &'static str,
    slot: i16,
}

/// How calls of a destination went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Calls {
    delivered: i64,
    failed: i64,
    /// All of them together.
    milliseconds: i64,
    slowest: i64,
}

/// What a process has done and not written yet; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    done: Arc<Mutex<BTreeMap<Key, i64>>>,
    calls: Arc<Mutex<BTreeMap<WebhookId, Calls>>>,
}

impl Activity {
    /// Counts one.
    pub fn note(&self, subject: Subject, outcome: &'static str, took: Duration) {
        self.add(Key { subject, outcome, slot: slot(took) }, 1);
    }

    /// Counts a call of a destination.
    pub fn note_call(&self, webhook: WebhookId, delivered: bool, took: Duration) {
        let milliseconds = i64::try_from(took.as_millis()).unwrap_or(i64::MAX).min(1 << LAST_SLOT);
        let (delivered, failed) = (i64::from(delivered), i64::from(!delivered));
        self.add_calls(webhook, Calls { delivered, failed, milliseconds, slowest: milliseconds });
    }

    fn add(&self, key: Key, count: i64) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default() += count;
    }

    fn add_calls(&self, webhook: WebhookId, more: Calls) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = calls.entry(webhook).or_default();
        calls.delivered += more.delivered;
        calls.failed += more.failed;
        calls.milliseconds += more.milliseconds;
        calls.slowest = calls.slowest.max(more.slowest);
    }

    /// Adds what was counted to the rows of this minute, and of these five. What cannot be written is kept for the next time.
    pub async fn write(&self, db: &PgPool) -> Result<(), Problem> {
        self.write_done(db).await?;
        self.write_calls(db).await
    }

    async fn write_calls(&self, db: &PgPool) -> Result<(), Problem> {
        let counted = std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner));
        if counted.is_empty() {
            return Ok(());
        }
        // in the order of their key, as above
        let webhooks: Vec<WebhookId> = counted.keys().copied().collect();
        let (delivered, failed): (Vec<i64>, Vec<i64>) =
            counted.values().map(|calls| (calls.delivered, calls.failed)).unzip();
        let (milliseconds, slowest): (Vec<i64>, Vec<i64>) =
            counted.values().map(|calls| (calls.milliseconds, calls.slowest)).unzip();
        let written = sqlx::query!(
            "INSERT INTO webhook_activity AS a (webhook_id, minute, delivered, failed, milliseconds, slowest)
             SELECT given.webhook_id, date_bin(make_interval(mins => $6), now(), 'epoch'), given.delivered, given.failed,
                    given.milliseconds, given.slowest
             FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                  AS given (webhook_id, delivered, failed, milliseconds, slowest)
             ON CONFLICT (webhook_id, minute) DO UPDATE
             SET delivered = a.delivered + excluded.delivered, failed = a.failed + excluded.failed,
                 milliseconds = a.milliseconds + excluded.milliseconds, slowest = greatest(a.slowest, excluded.slowest)",
            &webhooks as &[WebhookId],
            &delivered,
            &failed,
            &milliseconds,
            &slowest,
            CALLS_MINUTES,
        )
        .execute(db)
        .await;
        if let Err(error) = written {
            for (webhook, calls) in counted {
                self.add_calls(webhook, calls);
            }
            return Err(error.into());
        }
        Ok(())
    }

    async fn write_done(&self, db: &PgPool) -> Result<(), Problem> {
        let counted = std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner));
        if counted.is_empty() {
            return Ok(());
        }
        let (mut subjects, mut outcomes, mut slots, mut counts) = (vec![], vec![], vec![], vec![]);
        // in the order of their key: processes that write at once wait for each other, and never in a circle
        for (key, count) in &counted {
            subjects.push(key.subject.as_str());
            outcomes.push(key.outcome);
            slots.push(key.slot);
            counts.push(*count);
        }
        let written = sqlx::query!(
            "INSERT INTO activity AS a (minute, subject, outcome, slot, count)
             SELECT date_trunc('minute', now()), given.* FROM unnest($1::text[], $2::text[], $3::smallint[], $4::bigint[]) AS given
             ON CONFLICT (minute, subject, outcome, slot) DO UPDATE SET count = a.count + excluded.count",
            &subjects as &[&str],
            &outcomes as &[&str],
            &slots,
            &counts,
        )
        .execute(db)
        .await;
        if let Err(error) = written {
            for (key, count) in counted {
                self.add(key, count);
            }
            return Err(error.into());
        }
        Ok(())
    }

    /// Writes every few seconds, for as long as the process lives.
    pub async fn keep(self, db: PgPool) {
        let mut ticks = tokio::time::interval(WRITTEN_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.write(&db).await {
                // the counts are kept, and others report the outage of Postgres
                tracing::debug!(%error, "cannot record activity yet");
            }
        }
    }
}

/// The slot of a duration: the least power of two of milliseconds that holds it.
fn slot(took: Duration) -> i16 {
    let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    let slot = milliseconds.checked_next_power_of_two().map_or(LAST_SLOT, u64::trailing_zeros);
    i16::try_from(slot.min(LAST_SLOT)).unwrap_or_default()
}

/// A stretch of time, cut into equal steps that end now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The last hour, by the minute.
    Hour,
    /// The last six hours, by five minutes.
    SixHours,
    /// The last day, by the quarter of an hour.
    Day,
    /// The last seven days, by two hours.
    Week,
}

impl Span {
    /// Every span, from the shortest.
    pub const ALL: [Self; 4] = [Self::Hour, Self::SixHours, Self::Day, Self::Week];

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
    /// Where the first step begins.
    pub from: DateTime<Utc>,
    /// Which span.
    pub span: Span,
    /// Minutes of a step.
    pub step_minutes: i32,
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
    let steps = i32::try_from(span.steps()).map_err(Problem::internal)?;
    let step = span.step_minutes();
    let from = sqlx::query_scalar!(
        r#"SELECT date_bin(make_interval(mins => $1), now(), 'epoch') - make_interval(mins => $1 * ($2 - 1)) AS "from!""#,
        step,
        steps,
    )
    .fetch_one(db)
    .await?;
    let counted = sqlx::query!(
        r#"SELECT (extract(epoch FROM minute - $1) / 60)::int / $2 AS "step!", subject, outcome, slot,
                  sum(count)::bigint AS "count!"
           FROM activity WHERE minute >= $1 GROUP BY 1, 2, 3, 4"#,
        from,
        step,
    )
    .fetch_all(db)
    .await?;
    let waited = sqlx::query!(
        r#"SELECT (extract(epoch FROM minute - $1) / 60)::int / $2 AS "step!", max(jobs_open) AS "jobs!",
                  max(deliveries_due) AS "deliveries!", max(deliveries_oldest_seconds) AS "oldest_seconds!"
           FROM backlog WHERE minute >= $1 GROUP BY 1"#,
        from,
        step,
    )
    .fetch_all(db)
    .await?;
    let mut tallies = Subject::ALL.map(|subject| (subject.as_str(), vec![Tally::default(); span.steps()]));
    for row in counted {
        // a later version may count something else
        let Some((_, tallies)) = tallies.iter_mut().find(|(subject, _)| *subject == row.subject) else {
            continue;
        };
        if let Some(tally) = usize::try_from(row.step).ok().and_then(|step| tallies.get_mut(step)) {
            tally.add(&row.outcome, row.slot, row.count);
        }
    }
    let mut waiting = vec![None; span.steps()];
    for row in waited {
        if let Some(place) = usize::try_from(row.step).ok().and_then(|step| waiting.get_mut(step)) {
            *place = Some(Waiting {
                jobs: row.jobs,
                deliveries: row.deliveries,
                oldest_seconds: row.oldest_seconds,
            });
        }
    }
    let [jobs, deliveries, partners, handovers, upkeep] =
        tallies.map(|(_, tallies)| tallies.iter().map(Tally::point).collect());
    Ok(Course { from, span, step_minutes: step, jobs, deliveries, partners, handovers, upkeep, waiting })
}

/// Sums up what is older than the spans that are shown by less: by five minutes, by quarters of an hour, and by the hour, so that
/// every span has few rows.
pub async fn compact(db: &PgPool) -> Result<(), Problem> {
    sqlx::query!(
        "WITH step AS (
             -- whole ones: each is summed up once
             SELECT date_bin('5 minutes', now() - interval '70 minutes', 'epoch') AS by_five_minutes,
                    date_bin('15 minutes', now() - interval '7 hours', 'epoch') AS by_quarter,
                    date_bin('1 hour', now() - interval '25 hours', 'epoch') AS by_hour
         ), summed AS (
             SELECT a.minute AS was, date_bin(CASE WHEN a.minute < s.by_hour THEN interval '1 hour'
                                                  WHEN a.minute < s.by_quarter THEN interval '15 minutes'
                                                  ELSE interval '5 minutes' END, a.minute, 'epoch') AS minute
             FROM step s CROSS JOIN LATERAL (
                 SELECT DISTINCT minute FROM activity WHERE minute < s.by_five_minutes
             ) AS a
         ), old AS (
             DELETE FROM activity a USING summed s WHERE a.minute = s.was AND s.minute <> s.was
             RETURNING s.minute, a.subject, a.outcome, a.slot, a.count
         )
         INSERT INTO activity AS a (minute, subject, outcome, slot, count)
         SELECT minute, subject, outcome, slot, sum(count)::bigint FROM old GROUP BY 1, 2, 3, 4
         ON CONFLICT (minute, subject, outcome, slot) DO UPDATE SET count = a.count + excluded.count",
    )
    .execute(db)
    .await?;
    sqlx::query!(
        "WITH old AS (
             DELETE FROM webhook_activity
             WHERE minute < date_trunc('hour', now() - interval '25 hours', 'UTC') AND minute <> date_trunc('hour', minute, 'UTC')
             RETURNING *
         )
         INSERT INTO webhook_activity AS a (webhook_id, minute, delivered, failed, milliseconds, slowest)
         SELECT webhook_id, date_trunc('hour', minute, 'UTC'), sum(delivered)::bigint, sum(failed)::bigint,
                sum(milliseconds)::bigint, max(slowest)
         FROM old GROUP BY 1, 2
         ON CONFLICT (webhook_id, minute) DO UPDATE
         SET delivered = a.delivered + excluded.delivered, failed = a.failed + excluded.failed,
             milliseconds = a.milliseconds + excluded.milliseconds, slowest = greatest(a.slowest, excluded.slowest)",
    )
    .execute(db)
    .await?;
    Ok(())
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
    fn a_slot_contains_durations_longer_than_the_previous_slot() {
        let slot = |ms| slot(Duration::from_millis(ms));
        assert_eq!([slot(0), slot(1), slot(2), slot(3), slot(4), slot(5)], [0, 0, 1, 2, 2, 3]);
        assert_eq!(slot(u64::MAX), 31);
    }

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
