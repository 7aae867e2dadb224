//! How long jobs are kept once they have ended: long enough to look into what went wrong, and to retry it.

use sqlx::PgPool;

use longshore_kernel::problem::Problem;

/// Days that a job is kept after its end, with its chunks and item errors.
pub const KEPT_DAYS: i32 = 90;
/// Days that a dry run is kept.
pub const DRY_RUN_DAYS: i32 = 7;

/// Removes up to `limit` jobs that ended longer ago; returns how many.
pub async fn expire(db: &PgPool, limit: i64) -> Result<u64, Problem> {
    let gone = sqlx::query!(
        "WITH ended AS MATERIALIZED (
             SELECT id FROM job WHERE finished_at < now() - make_interval(days => $1)
             ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED
         ), tried AS MATERIALIZED (
             SELECT id FROM job WHERE preview_kept_until <= now() AND finished_at < now() - make_interval(days => $3)
             ORDER BY preview_kept_until LIMIT $2 FOR UPDATE SKIP LOCKED
         )
         DELETE FROM job WHERE id = ANY (ARRAY(SELECT id FROM ended UNION SELECT id FROM tried))",
        KEPT_DAYS,
        limit,
        DRY_RUN_DAYS,
    )
    .execute(db)
    .await?;
    Ok(gone.rows_affected())
}

/// Forgets the rows of up to `limit` dry runs that can no longer be applied; returns of how many.
pub async fn forget_rows(db: &PgPool, limit: i64) -> Result<u64, Problem> {
    let forgotten = sqlx::query_scalar!(
        r#"WITH ended AS MATERIALIZED (
               SELECT id FROM job WHERE preview_kept_until <= now() AND finished_at >= now() - make_interval(days => $2)
               ORDER BY preview_kept_until LIMIT $1 FOR UPDATE SKIP LOCKED
           ), forgotten AS (
               UPDATE job SET preview_kept_until = finished_at + make_interval(days => $2) FROM ended WHERE job.id = ended.id
           ), emptied AS (
               UPDATE job_chunk c SET payload = NULL, compared = NULL FROM ended WHERE c.job_id = ended.id
           )
           SELECT count(*) AS "count!" FROM ended"#,
        limit,
        DRY_RUN_DAYS,
    )
    .fetch_one(db)
    .await?;
    Ok(u64::try_from(forgotten).unwrap_or(0))
}
