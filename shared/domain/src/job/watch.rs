//! Waiting for jobs: one query for all waiting requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::kind::JobState;
use longshore_kernel::database::Database;
use longshore_kernel::ids::JobId;

/// How often what is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(40);

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
pub struct JobWatch {
    db: Database,
    watched: Arc<Mutex<Watched>>,
}

#[derive(Debug, Default)]
struct Watched {
    jobs: HashMap<JobId, watch::Sender<JobProgress>>,
    looking: bool,
}

impl JobWatch {
    /// Watches nothing yet.
    #[must_use]
    pub fn new(db: Database) -> Self {
        Self { db, watched: Arc::default() }
    }

    /// Follows a job: the receiver sees each change of its progress that a look finds.
    #[must_use]
    pub fn follow(&self, job: JobId) -> watch::Receiver<JobProgress> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = || watch::Sender::new(JobProgress { state: None, done: -1, ended: false, known: true });
        // an ended job may have been retried since: a new watcher sees the state that the next look finds
        let anew = |sender: &mut watch::Sender<JobProgress>| {
            if sender.borrow().ended {
                *sender = unknown();
            }
        };
        let receiver = watched.jobs.entry(job).and_modify(anew).or_insert_with(unknown).subscribe();
        if !watched.looking {
            watched.looking = true;
            tokio::spawn(self.clone().look());
        }
        receiver
    }

    /// Waits until a job has ended, for `limit` at the most; returns whether it has.
    pub async fn ended(&self, job: JobId, limit: Duration) -> bool {
        let mut receiver = self.follow(job);
        let ended = tokio::time::timeout(limit, receiver.wait_for(|s| s.ended || !s.known)).await;
        matches!(ended, Ok(Ok(standing)) if standing.ended)
    }

    /// Looks at all watched jobs until none is watched.
    async fn look(self) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let ids: Vec<JobId> = {
                let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
                watched.jobs.retain(|_, sender| sender.receiver_count() > 0);
                if watched.jobs.is_empty() {
                    watched.looking = false;
                    return;
                }
                watched.jobs.keys().copied().collect()
            };
            let found = sqlx::query!(
                r#"SELECT id AS "id: JobId", state AS "state: JobState", done, finished_at IS NOT NULL AS "ended!" FROM job WHERE id = ANY($1)"#,
                &ids as &[JobId]
            )
            .fetch_all(&self.db.main)
            .await;
            // Postgres is unavailable: the requests keep waiting, up to their own limits
            let Ok(found) = found else { continue };
            let found: HashMap<JobId, JobProgress> = found
                .into_iter()
                .map(|j| {
                    (j.id, JobProgress { state: Some(j.state), done: j.done, ended: j.ended, known: true })
                })
                .collect();
            let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            for id in ids {
                let Some(sender) = watched.jobs.get(&id) else { continue };
                let standing = found.get(&id).cloned();
                sender.send_if_modified(|known| {
                    let next = standing.unwrap_or_else(|| JobProgress { known: false, ..known.clone() });
                    let moved = *known != next;
                    *known = next;
                    moved
                });
            }
        }
    }
}
