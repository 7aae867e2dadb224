//! What each worker did, and its memory. A worker works for all organisations: who does not see all of them sees no worker.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use longshore_kernel::access::Scope;
use longshore_kernel::activity::{Span, Steps};
use longshore_kernel::database::Database;
use longshore_kernel::problem::Problem;

use super::Runs;

/// Workers that are shown: those that were there last.
pub const SHOWN: i64 = 30;
/// Rows that these are looked for in, the newest: one for each worker and minute.
const LOOKED_AT: i64 = 20_000;

/// A span of the workers, in steps.
#[derive(Clone, Debug)]
pub struct Workers {
    /// Its steps.
    pub steps: Steps,
    /// Those that were there in it, the last ones first, at most [`SHOWN`].
    pub workers: Vec<OfWorker>,
}

/// One worker.
#[derive(Clone, Debug)]
pub struct OfWorker {
    /// `<host>-<process id>`.
    pub name: String,
    /// The last minute in which it was there; of earlier ones, where the step that has them begins.
    pub last: DateTime<Utc>,
    /// Jobs that it ended.
    pub jobs: Vec<Runs>,
    /// Its calls to destinations.
    pub calls: Vec<Runs>,
    /// The most bytes of memory that it used; nothing where it was not there.
    pub memory: Vec<Option<i64>>,
}

impl OfWorker {
    fn new(name: String, last: DateTime<Utc>, steps: usize) -> Self {
        let runs = vec![Runs::default(); steps];
        Self { name, last, jobs: runs.clone(), calls: runs, memory: vec![None; steps] }
    }
}

/// Reads a span of the workers, up to now.
pub async fn by_worker(db: &Database, scope: &Scope, span: Span) -> Result<Workers, Problem> {
    read(db, scope, span, None).await
}

/// Reads a span of one worker, up to now, even if it was there only before that.
pub async fn of_worker(db: &Database, scope: &Scope, name: &str, span: Span) -> Result<Workers, Problem> {
    let found = read(db, scope, span, Some(name)).await?;
    if found.workers.is_empty() { Err(Problem::not_found("worker")) } else { Ok(found) }
}

async fn read(db: &Database, scope: &Scope, span: Span, name: Option<&str>) -> Result<Workers, Problem> {
    let steps = Steps::of(&db.main, span, 1).await?;
    let sees_all = scope.organisations().is_none();
    let mut workers = if sees_all { last(db, name, &steps).await? } else { Vec::new() };
    let places: HashMap<String, usize> = workers.iter().map(|worker| worker.name.clone()).zip(0..).collect();
    let names: Vec<String> = workers.iter().map(|worker| worker.name.clone()).collect();
    let found = sqlx::query!(
        r#"SELECT a.worker AS "worker!", date_part('epoch', a.minute - $2)::int / ($3 * 60) AS "place!",
                  sum(a.jobs)::bigint AS "jobs!", sum(a.jobs_failed)::bigint AS "jobs_failed!",
                  sum(a.calls)::bigint AS "calls!", sum(a.calls_failed)::bigint AS "calls_failed!", max(a.memory) AS memory
           FROM unnest($1::text[]) AS w (name) JOIN worker_activity a ON a.worker = w.name AND a.minute >= $2
           GROUP BY 1, 2"#,
        &names,
        steps.from,
        steps.minutes,
    )
    .fetch_all(&db.main)
    .await?;
    for row in found {
        let worker = places.get(&row.worker).and_then(|place| workers.get_mut(*place));
        let (Some(worker), Some(place)) = (worker, steps.place(row.place)) else { continue };
        worker.jobs[place] = runs(row.jobs, row.jobs_failed);
        worker.calls[place] = runs(row.calls, row.calls_failed);
        worker.memory[place] = row.memory;
    }
    Ok(Workers { steps, workers })
}

fn runs(all: i64, bad: i64) -> Runs {
    Runs { good: all - bad, bad, ..Runs::default() }
}

/// The workers that were there last, or the one with that name.
async fn last(db: &Database, name: Option<&str>, steps: &Steps) -> Result<Vec<OfWorker>, Problem> {
    let found = sqlx::query!(
        r#"SELECT worker AS "worker!", max(minute) AS "last!" FROM (
               (SELECT worker, minute FROM worker_activity
                WHERE $1::text IS NULL AND minute >= $2 ORDER BY minute DESC, worker DESC LIMIT $3)
               UNION ALL
               (SELECT worker, minute FROM worker_activity
                WHERE worker = $1 ORDER BY minute DESC LIMIT 1)
           ) AS newest
           GROUP BY worker ORDER BY 2 DESC, 1 LIMIT $4"#,
        name,
        steps.from,
        LOOKED_AT,
        SHOWN,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found.into_iter().map(|row| OfWorker::new(row.worker, row.last, steps.count)).collect())
}
