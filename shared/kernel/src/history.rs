//! History is partitioned by time (`docs/operating.md#retention`): partitions are made ahead and dropped by age.

use sqlx::PgPool;

use super::problem::Problem;

/// Days ahead that partitions are made for: a week without any worker does no harm.
const DAYS_AHEAD: i32 = 7;

/// Makes the partitions of the days ahead and drops those past their age; returns how many of both.
pub async fn keep(db: &PgPool) -> Result<u64, Problem> {
    let made =
        sqlx::query_scalar!(r#"SELECT history_prepare($1) AS "made!""#, DAYS_AHEAD).fetch_one(db).await?;
    let dropped = sqlx::query_scalar!(r#"SELECT history_expire() AS "dropped!""#).fetch_one(db).await?;
    Ok(u64::from((made + dropped).unsigned_abs()))
}
