//! Waiting for jobs: one query for all waiting requests.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::watch;

use super::kind::JobState;
use longshore_kernel::database::Database;
use longshore_kernel::ids::JobId;
use longshore_kernel::watch::{Look, Watch};

/// The progress of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobProgress {
    /// Its state, once it was looked at.
    pub state: Option<JobState>,
    /// Items executed.
    pub done: i32,
    /// Whether it has ended.
    pub ended: bool,
    /// Whether the job exists.
    pub known: bool,
}

/// Watches the progress of jobs.
#[derive(Clone, Debug)]
pub struct JobWatch(Watch<Jobs>);

#[derive(Clone, Debug)]
struct Jobs(Database);

impl JobWatch {
    /// Watches nothing yet.
    #[must_use]
    pub fn new(db: Database) -> Self {
        Self(Watch::new(Jobs(db)))
    }

    /// Follows a job: the receiver sees each change of its progress that a look finds.
    #[must_use]
    pub fn follow(&self, job: JobId) -> watch::Receiver<JobProgress> {
        self.0.follow(job)
    }

    /// Waits until a job has ended, for `limit` at the most; returns whether it has.
    pub async fn ended(&self, job: JobId, limit: Duration) -> bool {
        let mut receiver = self.follow(job);
        let ended = tokio::time::timeout(limit, receiver.wait_for(|s| s.ended || !s.known)).await;
        matches!(ended, Ok(Ok(standing)) if standing.ended)
    }
}

impl Look for Jobs {
    type Key = JobId;
    type Seen = JobProgress;

    fn unknown() -> JobProgress {
        JobProgress { state: None, done: -1, ended: false, known: true }
    }

    /// An ended job may have been retried since.
    fn is_stale(seen: &JobProgress) -> bool {
        seen.ended
    }

    fn is_news(before: &JobProgress, now: &JobProgress) -> bool {
        before != now
    }

    async fn look(&self, waited: &[(JobId, JobProgress)]) -> Option<Vec<(JobId, JobProgress)>> {
        let ids: Vec<JobId> = waited.iter().map(|(id, _)| *id).collect();
        let found = sqlx::query!(
            r#"SELECT id AS "id: JobId", state AS "state: JobState", done, finished_at IS NOT NULL AS "ended!" FROM job WHERE id = ANY($1)"#,
            &ids as &[JobId]
        )
        .fetch_all(&self.0.main)
        .await
        .ok()?;
        let found: HashMap<JobId, JobProgress> = found
            .into_iter()
            .map(|j| (j.id, JobProgress { state: Some(j.state), done: j.done, ended: j.ended, known: true }))
            .collect();
        let of = |(id, before): &(JobId, JobProgress)| {
            let gone = || JobProgress { known: false, ..before.clone() };
            (*id, found.get(id).cloned().unwrap_or_else(gone))
        };
        Some(waited.iter().map(of).collect())
    }
}
