//! How much is waiting to be executed, for monitoring.

use super::kind::JobState;
use super::name::share_of;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::AtLeast;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Problem;

/// The jobs that have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Backlog {
    /// How many.
    pub open: i64,
    /// For how long the oldest has been there, in seconds.
    pub oldest_seconds: f64,
}

/// Counts them, by the index on the live ones.
pub async fn read(db: &Database) -> Result<Backlog, Problem> {
    let found = sqlx::query_as!(
        Backlog,
        r#"SELECT count(*) AS "open!",
                  coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS "oldest_seconds!"
           FROM job WHERE state IN ('queued', 'running', 'retrying')"#
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(found)
}

/// Live jobs of a scope that are counted.
pub const COUNTED: i64 = 10_000;

/// The live jobs of a scope by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// None of it was executed.
    pub queued: AtLeast,
    /// Some of it was, or is, executed.
    pub running: AtLeast,
    /// A chunk waits for its next attempt.
    pub retrying: AtLeast,
}

/// Counts the live jobs of a scope: those of each organisation by the indexes of its lines, without those of others. The order names
/// what is compared, so that no other index has it.
pub async fn live(db: &Database, scope: &Scope) -> Result<Live, Problem> {
    let found = sqlx::query!(
        r#"SELECT state AS "state!: JobState", count(*) AS "jobs!" FROM (
               (SELECT state FROM job
                WHERE $1::uuid[] IS NULL AND state IN ('queued', 'running', 'retrying') ORDER BY acceptance LIMIT $3)
               UNION ALL
               (SELECT j.state FROM unnest($1::uuid[]) AS o (id) CROSS JOIN LATERAL (
                    (SELECT state FROM job
                     WHERE organisation_id BETWEEN o.id AND o.id AND sequence IS NOT NULL AND state IN ('queued', 'running', 'retrying')
                       AND in_eshop($2, eshop_id)
                     ORDER BY organisation_id, sequence, acceptance LIMIT $3)
                    UNION ALL
                    (SELECT state FROM job
                     WHERE share BETWEEN o.id AND o.id AND sequence IS NULL
                       AND state IN ('queued', 'running', 'retrying') AND in_eshop($2, eshop_id)
                     ORDER BY share, acceptance LIMIT $3)
                ) AS j)
               UNION ALL
               -- jobs of several organisations
               (SELECT j.state FROM (
                    SELECT state, organisations, eshop_id FROM job
                    WHERE share BETWEEN $4 AND $4
                      AND sequence IS NULL AND state IN ('queued', 'running', 'retrying')
                    ORDER BY share, acceptance LIMIT $3
                ) AS j WHERE j.organisations <@ $1 AND in_eshop($2, j.eshop_id))
               LIMIT $3
           ) AS live GROUP BY state"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
        share_of(None),
    )
    .fetch_all(&db.lists)
    .await?;
    let is_more = found.iter().map(|row| row.jobs).sum::<i64>() >= COUNTED;
    let of = |state: JobState| AtLeast {
        count: found.iter().find(|row| row.state == state).map_or(0, |row| row.jobs),
        is_more,
    };
    Ok(Live {
        queued: of(JobState::Queued),
        running: of(JobState::Running),
        retrying: of(JobState::Retrying),
    })
}
