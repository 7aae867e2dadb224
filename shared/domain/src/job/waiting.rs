//! What a job waits for (`waitsFor`), for people. Postgres decides it by the rules of a claim: `job_waits_for`.

use chrono::{DateTime, Utc};
use serde::Deserialize;

use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

/// Every reason.
pub const REASONS: &[&str] = &["earlier_job", "partner", "turn", "paused"];

/// What a job waits for.
#[derive(Clone, Debug, Deserialize)]
pub struct WaitsFor {
    /// One of [`REASONS`].
    pub reason: String,
    /// The job that comes first.
    pub job: Option<JobId>,
    /// Since when it waits.
    pub since: DateTime<Utc>,
    /// Until when, where that is known.
    pub until: Option<DateTime<Utc>>,
}

/// A job that others wait for.
#[derive(Clone, Debug)]
pub struct Ahead {
    /// Its id.
    pub id: JobId,
    /// What it does.
    pub kind: String,
    /// Name of its e-shop.
    pub eshop: Option<String>,
    /// When its first chunk was begun.
    pub started_at: Option<DateTime<Utc>>,
}

/// The job that one waits for, if it is in the scope.
pub async fn ahead(db: &Database, scope: &Scope, job: JobId) -> Result<Option<Ahead>, Problem> {
    let found = sqlx::query_as!(
        Ahead,
        r#"SELECT j.id, j.kind, (SELECT name FROM eshop s WHERE s.id = j.eshop_id) AS eshop, j.started_at
           FROM job j
           WHERE j.id = $1 AND in_scope($2, j.organisation_id, j.organisations)
             AND in_eshop($3, j.eshop_id)"#,
        job.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_optional(&db.main)
    .await?;
    Ok(found)
}
