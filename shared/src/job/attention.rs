//! The jobs that need somebody now.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::account::access::Scope;
use crate::platform::database::Database;
use crate::platform::problem::Problem;

/// Jobs that are counted: beyond that, it is many.
pub const COUNTED: i64 = 1_000;
/// A job that is under way and has not moved for so long is stuck.
pub const STUCK_MINUTES: i32 = 10;

/// What there is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attention {
    /// Jobs of the last day that failed, at most [`COUNTED`].
    pub failed: i64,
    /// Jobs that run and have not moved for [`STUCK_MINUTES`], among the first [`COUNTED`] that are under way.
    pub stuck: i64,
    /// The one of the stuck jobs that has not moved for longest.
    pub stuck_job: Option<Uuid>,
    /// Since when it has not.
    pub stuck_since: Option<DateTime<Utc>>,
    /// Jobs that wait for their next attempt, among the same.
    pub retrying: i64,
}

/// Looks, by the indexes on what failed and what is under way.
pub async fn read(db: &Database, scope: &Scope) -> Result<Attention, Problem> {
    let found = sqlx::query_as!(
        Attention,
        r#"WITH live AS (
               SELECT id, state, changed_at FROM job
               WHERE state IN ('queued', 'running', 'retrying')
                 AND ($1::uuid[] IS NULL OR organisation_id = ANY ($1) OR organisations <@ $1)
                 AND ($2::uuid IS NULL OR eshop_id = $2)
               ORDER BY acceptance LIMIT $3
           ), stuck AS (
               SELECT id, changed_at FROM live
               WHERE state = 'running' AND changed_at < now() - make_interval(mins => $4)
           )
           SELECT (SELECT count(*) FROM (
                       SELECT FROM job
                       WHERE state = 'failed' AND created_at > now() - interval '1 day'
                         AND ($1::uuid[] IS NULL OR organisation_id = ANY ($1) OR organisations <@ $1)
                         AND ($2::uuid IS NULL OR eshop_id = $2)
                       LIMIT $3) AS f) AS "failed!",
                  (SELECT count(*) FROM stuck) AS "stuck!",
                  (SELECT id FROM stuck ORDER BY changed_at LIMIT 1) AS stuck_job,
                  (SELECT min(changed_at) FROM stuck) AS stuck_since,
                  (SELECT count(*) FROM live WHERE state = 'retrying') AS "retrying!""#,
        scope.organisations() as Option<&[Uuid]>,
        scope.eshop(),
        COUNTED,
        STUCK_MINUTES,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(found)
}
