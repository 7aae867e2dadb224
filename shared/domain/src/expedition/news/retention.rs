//! How long it is remembered which reports were taken.

use sqlx::PgPool;

use longshore_kernel::problem::Problem;

/// Forgets reports that were taken more than 90 days ago, at most so many; returns how many.
pub async fn expire(db: &PgPool, limit: i64) -> Result<u64, Problem> {
    let gone = sqlx::query!(
        "DELETE FROM wms_news WHERE ctid IN (
             SELECT ctid FROM wms_news WHERE received_at < now() - interval '90 days'
             ORDER BY received_at LIMIT $1 FOR UPDATE SKIP LOCKED)",
        limit,
    )
    .execute(db)
    .await?;
    Ok(gone.rows_affected())
}
