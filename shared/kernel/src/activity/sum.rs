//! Summing up what is older than the spans that are shown by less: by five minutes, by quarters of an hour, and by the hour, so that
//! every span has few rows.

use sqlx::PgPool;

use crate::problem::Problem;

/// Minutes after which what was counted by the minute is summed up.
const BY_THE_MINUTE: i32 = 70;
/// The same for calls of webhooks, which are kept by five minutes for a day: timelines show when a webhook began to fail.
const CALLS: i32 = 26 * 60;

/// Sums up the rows of a table with the same keys that are older than so many minutes: some columns are added, of others the largest
/// value is kept.
macro_rules! sum_up {
    ($db:expr, $minutes:expr, $table:literal of $($key:literal),+; sum $first:literal $(, $sum:literal)*; largest $($largest:literal),*) => {
        sqlx::query!(
            "WITH RECURSIVE step AS (
                 -- whole ones, into which no row comes any more
                 SELECT date_bin('5 minutes', now() - make_interval(mins => $1), 'epoch') AS by_five_minutes,
                        date_bin('15 minutes', now() - interval '7 hours', 'epoch') AS by_quarter,
                        date_bin('1 hour', now() - interval '25 hours', 'epoch') AS by_hour
             ), known (minute) AS (
                 -- from one to the next by the index, however many rows each has
                 SELECT min(minute) FROM " + $table + "
                 UNION ALL
                 SELECT (SELECT min(a.minute) FROM " + $table + " a WHERE a.minute > known.minute)
                 FROM known, step WHERE known.minute < by_five_minutes
             ), summed AS (
                 SELECT minute AS was, date_bin(CASE WHEN minute < by_hour THEN interval '1 hour'
                                                    WHEN minute < by_quarter THEN interval '15 minutes'
                                                    ELSE interval '5 minutes' END, minute, 'epoch') AS becomes
                 FROM known, step WHERE minute < by_five_minutes
             ), old AS (
                 DELETE FROM " + $table + " WHERE minute = ANY (ARRAY(SELECT was FROM summed WHERE becomes <> was)) RETURNING *
             )
             INSERT INTO " + $table + " AS a (minute, " $(+ $key + ", ")+ + $first $(+ ", " + $sum)* $(+ ", " + $largest)* + ")
             SELECT becomes, " $(+ $key + ", ")+ + "sum(" + $first + ")::bigint" $(+ ", sum(" + $sum + ")::bigint")*
                 $(+ ", max(" + $largest + ")")* + "
             FROM old JOIN summed ON was = minute GROUP BY becomes" $(+ ", " + $key)+ + "
             ON CONFLICT (minute" $(+ ", " + $key)+ + ") DO UPDATE
             SET " + $first + " = a." + $first + " + excluded." + $first
                 $(+ ", " + $sum + " = a." + $sum + " + excluded." + $sum)*
                 $(+ ", " + $largest + " = greatest(a." + $largest + ", excluded." + $largest + ")")*,
            $minutes,
        )
        .execute($db)
        .await?
    };
}

/// Sums up all that was counted.
pub async fn compact(db: &PgPool) -> Result<(), Problem> {
    sum_up!(db, BY_THE_MINUTE, "activity" of "subject", "outcome", "slot"; sum "count"; largest);
    sum_up!(db, CALLS, "webhook_activity" of "webhook_id"; sum "delivered", "failed", "milliseconds"; largest "slowest");
    sum_up!(db, BY_THE_MINUTE, "job_activity" of "kind"; sum "succeeded", "failed", "milliseconds"; largest "slowest");
    sum_up!(
        db,
        BY_THE_MINUTE,
        "worker_activity" of "worker"; sum "jobs", "jobs_failed", "calls", "calls_failed"; largest "memory"
    );
    Ok(())
}
