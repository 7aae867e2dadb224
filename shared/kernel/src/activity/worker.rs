//! What this worker does, and the memory that it uses. An idle worker is recorded, too, once a minute.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgPool;

use super::pending::{Pending, Tally};
use crate::problem::Problem;
use crate::queue::memory_in_use;

/// How often the memory of an idle worker is recorded.
const IDLE_EVERY: Duration = Duration::from_mins(1);

/// What a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    jobs: i64,
    jobs_failed: i64,
    calls: i64,
    calls_failed: i64,
}

impl Tally for Done {
    fn add(&mut self, more: Self) {
        self.jobs += more.jobs;
        self.jobs_failed += more.jobs_failed;
        self.calls += more.calls;
        self.calls_failed += more.calls_failed;
    }
}

/// The worker that this process is, if it is one.
#[derive(Debug, Default)]
pub(super) struct Doing {
    name: OnceLock<String>,
    done: Pending<(), Done>,
    written: Mutex<Option<Instant>>,
}

impl Doing {
    /// It is a worker with this name.
    pub(super) fn is(&self, name: &str) {
        let _ = self.name.set(name.to_owned());
    }

    pub(super) fn ended_job(&self, is_good: bool) {
        self.count(Done { jobs: 1, jobs_failed: i64::from(!is_good), ..Done::default() });
    }

    pub(super) fn called(&self, is_delivered: bool) {
        self.count(Done { calls: 1, calls_failed: i64::from(!is_delivered), ..Done::default() });
    }

    fn count(&self, done: Done) {
        if self.name.get().is_some() {
            self.done.add((), done);
        }
    }

    /// Adds what was done to the row of this minute, with the most memory of that.
    pub(super) async fn write(&self, db: &PgPool) -> Result<(), Problem> {
        let Some(name) = self.name.get() else { return Ok(()) };
        let written = *self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.is_none_or(|at| at.elapsed() >= IDLE_EVERY) {
            self.done.add((), Done::default());
        }
        self.done.write(|done| write(db, name, done)).await?;
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(())
    }
}

async fn write(db: &PgPool, name: &str, done: Vec<((), Done)>) -> Result<(), sqlx::Error> {
    let Some(((), done)) = done.first() else { return Ok(()) };
    sqlx::query!(
        "INSERT INTO worker_activity AS a (worker, minute, jobs, jobs_failed, calls, calls_failed, memory)
         VALUES ($1, date_trunc('minute', now()), $2, $3, $4, $5, $6)
         ON CONFLICT (worker, minute) DO UPDATE
         SET jobs = a.jobs + excluded.jobs, jobs_failed = a.jobs_failed + excluded.jobs_failed,
             calls = a.calls + excluded.calls, calls_failed = a.calls_failed + excluded.calls_failed,
             memory = greatest(a.memory, excluded.memory)",
        name,
        done.jobs,
        done.jobs_failed,
        done.calls,
        done.calls_failed,
        memory_in_use().and_then(|bytes| i64::try_from(bytes).ok()),
    )
    .execute(db)
    .await?;
    Ok(())
}
