//! How long it is remembered which reports were taken, and which orders only a warehouse has.

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

/// Forgets orders that were not here and are again, and those that were last reported more than 90 days ago; returns how many.
pub async fn expire_lost(db: &PgPool) -> Result<u64, Problem> {
    let gone = sqlx::query!(
        "DELETE FROM wms_lost_order l
         WHERE l.changed_at < now() - interval '90 days'
            OR l.id = ANY (ARRAY(
                   SELECT k.id FROM wms_lost_order k CROSS JOIN LATERAL (
                       SELECT FROM expedition e WHERE e.id = k.expedition_id AND e.organisation_id = k.organisation_id LIMIT 1
                   ) AS e))",
    )
    .execute(db)
    .await?;
    Ok(gone.rows_affected())
}
