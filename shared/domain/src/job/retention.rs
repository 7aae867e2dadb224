//! How long jobs are kept once they have ended: long enough to look into what went wrong, and to retry it.

use sqlx::PgPool;

use longshore_kernel::problem::Problem;

/// Days that a job is kept after its end, with its chunks and item errors.
pub const KEPT_DAYS: i32 = 90;

/// Removes up to `limit` jobs that ended longer ago; returns how many.
pub async fn expire(db: &PgPool, limit: i64) -> Result<u64, Problem> {
    let gone = sqlx::query!(
        "DELETE FROM job WHERE id = ANY (ARRAY(
             SELECT id FROM job WHERE finished_at < now() - make_interval(days => $1)
             ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED))",
        KEPT_DAYS,
        limit,
    )
    .execute(db)
    .await?;
    Ok(gone.rows_affected())
}
