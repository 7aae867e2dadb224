//! Activity by the minute, for charts: ended jobs, calls to destinations, partners and warehouses, tasks of the upkeep, and how much
//! was waiting. Also the results and the durations of the calls of each destination, by five minutes; of the jobs of each kind;
//! and what each worker did.
//!
//! A process counts what it does in memory and adds it to the minute's rows every few seconds, so that a chart costs almost
//! nothing to store and to draw, at any load. It is for charts, not for accounting: a process that is killed loses its last
//! seconds of counts, and a count belongs to the minute in which it is written.

mod course;
mod pending;
mod runs;
mod sum;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;

use self::pending::Pending;
use self::runs::Tallied;
use self::worker::Doing;
use super::problem::Problem;
use crate::ids::WebhookId;

pub use self::course::{Course, Point, Span, Steps, Waiting, read};
pub use self::sum::compact;

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

/// What a process has done and not written yet; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Activity(Arc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    done: Pending<Key, i64>,
    calls: Pending<WebhookId, Tallied>,
    kinds: Pending<&'static str, Tallied>,
    worker: Doing,
}

impl Activity {
    /// What is counted is that of a worker with this name, too.
    pub fn of_worker(&self, name: &str) {
        self.0.worker.is(name);
    }

    /// Counts one.
    pub fn note(&self, subject: Subject, outcome: &'static str, took: Duration) {
        self.0.done.add(Key { subject, outcome, slot: slot(took) }, 1);
    }

    /// Counts a job that ended.
    pub fn note_job(&self, kind: &'static str, outcome: &'static str, took: Duration) {
        self.note(Subject::Job, outcome, took);
        let is_good = match outcome {
            "succeeded" => true,
            // neither the one nor the other
            "cancelled" => return,
            _ => false,
        };
        self.0.kinds.add(kind, Tallied::one(is_good, took));
        self.0.worker.ended_job(is_good);
    }

    /// Counts an attempt of a delivery.
    pub fn note_attempt(&self, webhook: WebhookId, outcome: &'static str, took: Duration) {
        self.note(Subject::Delivery, outcome, took);
        let is_delivered = outcome == "delivered";
        self.note_call(webhook, is_delivered, took);
        self.0.worker.called(is_delivered);
    }

    /// Counts a call of a destination.
    pub fn note_call(&self, webhook: WebhookId, delivered: bool, took: Duration) {
        self.0.calls.add(webhook, Tallied::one(delivered, took));
    }

    /// Adds what was counted to the rows of this minute, and of these five. What cannot be written is kept for the next time.
    pub async fn write(&self, db: &PgPool) -> Result<(), Problem> {
        self.0.done.write(|done| write_done(db, done)).await?;
        self.0.calls.write(|calls| runs::write_calls(db, calls)).await?;
        self.0.kinds.write(|kinds| runs::write_kinds(db, kinds)).await?;
        self.0.worker.write(db).await
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

/// The counts are given in the order of their key: processes that write at once wait for each other, and never in a circle.
async fn write_done(db: &PgPool, counted: Vec<(Key, i64)>) -> Result<(), sqlx::Error> {
    let (mut subjects, mut outcomes, mut slots, mut counts) = (vec![], vec![], vec![], vec![]);
    for (key, count) in counted {
        subjects.push(key.subject.as_str());
        outcomes.push(key.outcome);
        slots.push(key.slot);
        counts.push(count);
    }
    sqlx::query!(
        "INSERT INTO activity AS a (minute, subject, outcome, slot, count)
             SELECT date_trunc('minute', now()), given.* FROM unnest($1::text[], $2::text[], $3::smallint[], $4::bigint[]) AS given
             ON CONFLICT (minute, subject, outcome, slot) DO UPDATE SET count = a.count + excluded.count",
        &subjects as &[&str],
        &outcomes as &[&str],
        &slots,
        &counts,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The slot of a duration: the least power of two of milliseconds that holds it.
fn slot(took: Duration) -> i16 {
    let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    let slot = milliseconds.checked_next_power_of_two().map_or(LAST_SLOT, u64::trailing_zeros);
    i16::try_from(slot.min(LAST_SLOT)).unwrap_or_default()
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
    fn a_cancelled_job_is_no_job_of_its_kind() {
        let activity = Activity::default();
        for outcome in ["succeeded", "failed", "cancelled", "failed"] {
            activity.note_job("product.sync", outcome, Duration::from_millis(20));
        }
        let kinds = activity.0.kinds.take();
        assert_eq!(kinds, [("product.sync", Tallied { good: 1, bad: 2, milliseconds: 60, slowest: 20 })]);
    }
}
