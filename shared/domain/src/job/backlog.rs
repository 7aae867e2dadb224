//! How much is waiting to be executed, for monitoring.

use longshore_kernel::database::Database;
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
