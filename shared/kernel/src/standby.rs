//! Commits that wait for a standby (`docs/scaling.md#commits-that-wait`).
//!
//! With `synchronous_standby_names`, a commit waits until a standby has it, too. No time limit of Postgres ends that, and where somebody
//! cancels it, the statement succeeds although it is on one machine only. So a request is answered that its write is done when:
//!
//! - Its statements have succeeded.
//! - Where that took long, a later commit has succeeded, too ([`Standby::confirm`]). It waits for everything before it.
//!
//! A request does not wait for ever, nor does what it has others do ([`Standby::patiently`]). The connection is closed then; the commit
//! goes on to wait in Postgres. While half as many wait as a pool has connections, new writes are refused ([`Standby::must_keep_up`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::{PgExecutor, PgPool};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::problem::{Problem, UNAVAILABLE};

/// For how long what Postgres said is believed.
const BELIEVED: Duration = Duration::from_millis(500);

/// A write that took longer was perhaps cancelled while it waited.
const CONFIRMED: Duration = Duration::from_secs(1);

/// When a caller may try again.
const RETRY: Duration = Duration::from_secs(2);

/// Commits that wait; cheap to clone.
#[derive(Clone, Debug)]
pub struct Standby(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    probe: PgPool,
    patience: Duration,
    most: u32,
    waiting: AtomicU32,
    looked: Mutex<Option<Instant>>,
}

/// Commits that have waited for longer than a request does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiting {
    /// How many.
    pub commits: i64,
    /// The seconds for which the oldest has waited.
    pub seconds: f64,
}

impl Standby {
    /// Asks by the pool `probe`, whose login is that of all others. A request waits for `patience`; a pool has `connections`.
    pub(super) fn new(probe: PgPool, patience: Duration, connections: u32) -> Self {
        let (most, waiting, looked) = (connections.div_ceil(2), AtomicU32::new(0), Mutex::default());
        Self(Arc::new(Inner { probe, patience, most, waiting, looked }))
    }

    /// What `work` comes to, unless it takes longer than a request waits while commits wait for so long. Then it ends, and its connections
    /// are closed.
    ///
    /// # Errors
    /// Those of `work`; `unavailable`: its end is not known.
    pub async fn patiently<T, E>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, Problem>
    where
        Problem: From<E>,
    {
        let is_behind = async {
            sleep(self.0.patience).await;
            self.is_behind().await;
        };
        tokio::select! {
            done = work => done.map_err(Problem::from),
            () = is_behind => Err(unanswered()),
        }
    }

    /// The commits of the service that have waited too long, in all processes with this login.
    ///
    /// # Errors
    /// Those of Postgres.
    pub async fn look(&self) -> Result<Option<Waiting>, sqlx::Error> {
        let found = sqlx::query_as!(
            Waiting,
            r#"SELECT count(*) AS "commits!", coalesce(extract(epoch FROM clock_timestamp() - min(state_change)), 0)::float8 AS "seconds!"
               FROM pg_stat_activity
               WHERE wait_event = 'SyncRep' AND usename = session_user AND datname = current_database()
                 AND state_change < clock_timestamp() - make_interval(secs => $1)"#,
            self.0.patience.as_secs_f64(),
        )
        .fetch_one(&self.0.probe)
        .await?;
        self.0.waiting.store(u32::try_from(found.commits).unwrap_or(u32::MAX), Ordering::Relaxed);
        Ok((found.commits > 0).then_some(found))
    }

    /// How many there are, as Postgres said a moment ago.
    async fn waiting(&self) -> u32 {
        let mut looked = self.0.looked.lock().await;
        if looked.is_none_or(|at| at.elapsed() >= BELIEVED) {
            if let Err(error) = self.look().await {
                tracing::debug!(%error, "Postgres does not say whether commits wait for its standby");
                self.0.waiting.store(0, Ordering::Relaxed);
            }
            *looked = Some(Instant::now());
        }
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// Returns when commits have waited too long.
    pub async fn is_behind(&self) {
        while self.waiting().await == 0 {
            sleep(BELIEVED).await;
        }
    }

    /// Refuses a new write while too many wait. Where none did when somebody last asked, nobody is asked.
    ///
    /// # Errors
    /// `unavailable`.
    pub async fn must_keep_up(&self) -> Result<(), Problem> {
        if self.0.waiting.load(Ordering::Relaxed) == 0 || self.waiting().await < self.0.most {
            return Ok(());
        }
        let detail =
            "Postgres waits for its standby, so nothing is written at the moment; try again in a moment";
        Err(Problem::new(&UNAVAILABLE, detail).retry_after(RETRY))
    }

    /// Where a write took so long that its wait may have been cancelled, commits something that waits, too: then the standby has all that
    /// was committed before.
    ///
    /// # Errors
    /// Those of Postgres.
    pub async fn confirm<'d>(
        &self,
        db: impl PgExecutor<'d> + Copy,
        mut began: Instant,
    ) -> Result<(), sqlx::Error> {
        while began.elapsed() >= CONFIRMED && self.is_waited_for().await? {
            began = Instant::now();
            sqlx::query!("SELECT pg_logical_emit_message(true, 'longshore', '')::text AS lsn")
                .fetch_one(db)
                .await?;
        }
        Ok(())
    }

    /// Whether commits wait for a standby.
    async fn is_waited_for(&self) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar!(
            r#"SELECT current_setting('synchronous_standby_names') <> '' AS "is_waited_for!""#
        )
        .fetch_one(&self.0.probe)
        .await
    }
}

fn unanswered() -> Problem {
    let detail = "Postgres did not confirm the write in time, so it may have happened or may happen later; repeat it with the same Idempotency-Key";
    Problem::new(&UNAVAILABLE, detail).retry_after(RETRY)
}
