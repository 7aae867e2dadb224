//! The jobs of each kind.

use std::collections::BTreeMap;

use longshore_kernel::access::Scope;
use longshore_kernel::activity::{Span, Steps};
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Problem;

use super::{JOBS, Runs};

/// A span of the jobs of each kind, in steps.
#[derive(Clone, Debug)]
pub struct Kinds {
    /// Its steps.
    pub steps: Steps,
    /// The kinds of which jobs ended, those with most first.
    pub kinds: Vec<OfKind>,
}

/// The jobs of one kind.
#[derive(Clone, Debug)]
pub struct OfKind {
    /// The kind.
    pub kind: String,
    /// Its jobs that ended, the oldest step first.
    pub jobs: Vec<Runs>,
}

impl OfKind {
    /// All of its jobs that ended.
    #[must_use]
    pub fn total(&self) -> i64 {
        self.jobs.iter().map(|step| step.good + step.bad).sum()
    }
}

impl Kinds {
    /// The steps of a kind; without jobs if none ended.
    #[must_use]
    pub fn of(&self, kind: &str) -> Vec<Runs> {
        let found = self.kinds.iter().find(|known| known.kind == kind);
        found.map_or_else(|| vec![Runs::default(); self.steps.count], |found| found.jobs.clone())
    }
}

/// What a step of a kind has.
struct Found {
    kind: String,
    place: i32,
    succeeded: i64,
    failed: i64,
    mean_ms: Option<f64>,
    slowest_ms: Option<f64>,
}

/// Reads a span of a caller, up to now: of the whole service as it was counted, else from the jobs of the caller's organisations
/// by their acceptance.
pub async fn by_kind(db: &Database, scope: &Scope, span: Span) -> Result<Kinds, Problem> {
    let steps = Steps::of(&db.main, span, 1).await?;
    let found = match scope.organisations() {
        None => counted(db, &steps).await?,
        Some(organisations) => recorded(db, organisations, scope.eshop(), &steps).await?,
    };
    let mut kinds: BTreeMap<String, Vec<Runs>> = BTreeMap::new();
    for step in found {
        let Some(place) = steps.place(step.place) else { continue };
        let jobs = kinds.entry(step.kind).or_insert_with(|| vec![Runs::default(); steps.count]);
        jobs[place] = Runs {
            good: step.succeeded,
            bad: step.failed,
            mean_ms: step.mean_ms,
            slowest_ms: step.slowest_ms,
        };
    }
    let mut kinds: Vec<OfKind> = kinds.into_iter().map(|(kind, jobs)| OfKind { kind, jobs }).collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.total()));
    Ok(Kinds { steps, kinds })
}

async fn counted(db: &Database, steps: &Steps) -> Result<Vec<Found>, Problem> {
    let found = sqlx::query_as!(
        Found,
        r#"SELECT kind AS "kind!", date_part('epoch', minute - $1)::int / ($2 * 60) AS "place!",
                  sum(succeeded)::bigint AS "succeeded!", sum(failed)::bigint AS "failed!",
                  (sum(milliseconds) / nullif(sum(succeeded + failed), 0))::float8 AS mean_ms, max(slowest)::float8 AS slowest_ms
           FROM job_activity WHERE minute >= $1 GROUP BY 1, 2"#,
        steps.from,
        steps.minutes,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found)
}

/// Among the newest jobs of all kinds, so that a rare kind is not looked for among all.
async fn recorded(
    db: &Database,
    organisations: &[OrganisationId],
    eshop: Option<EshopId>,
    steps: &Steps,
) -> Result<Vec<Found>, Problem> {
    let found = sqlx::query_as!(
        Found,
        r#"SELECT kind AS "kind!", floor(extract(epoch FROM created_at - $3) / 60)::int / $4 AS "place!",
                  count(*) FILTER (WHERE state = 'succeeded') AS "succeeded!",
                  count(*) FILTER (WHERE state = 'failed') AS "failed!", avg(ms) AS mean_ms, max(ms) AS slowest_ms
           FROM (SELECT j.* FROM unnest($1::uuid[]) AS o (id) CROSS JOIN LATERAL (
                     (SELECT kind, created_at, state, extract(epoch FROM finished_at - created_at)::float8 * 1000 AS ms FROM job
                      WHERE $2::uuid IS NULL AND organisation_id = o.id AND created_at >= $3
                      ORDER BY created_at DESC LIMIT $5)
                     UNION ALL
                     (SELECT kind, created_at, state, extract(epoch FROM finished_at - created_at)::float8 * 1000 FROM job
                      WHERE eshop_id = $2 AND organisation_id = o.id AND created_at >= $3
                      ORDER BY created_at DESC LIMIT $5)
                 ) AS j ORDER BY created_at DESC LIMIT $5) AS newest
           WHERE state IN ('succeeded', 'failed')
           GROUP BY 1, 2"#,
        organisations as &[OrganisationId],
        eshop as Option<EshopId>,
        steps.from,
        steps.minutes,
        JOBS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
