//! A rate of calls: in any *t* seconds at most rate × *t* + 1 begin, whoever holds the lane.
//!
//! Calls are paid for before they begin, by moving the lane's row ahead: those of at most a second, and one more, which is the
//! pause after the last of them. So whoever takes the lane over begins where the payment ends. A holder keeps the pause between
//! its calls by its own clock, and begins none when its time in the payment is over ([`Paid`]).

use std::time::Duration;

use super::Lease;
use longshore_kernel::database::Database;
use longshore_kernel::problem::Problem;

/// A payment is not made for calls that may begin only after this.
pub const WAITED_FOR: Duration = Duration::from_millis(250);

/// The time of calls that are paid for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paid {
    /// How long the first of them has to wait, from when the lane was read.
    pub wait: Duration,
    /// How many they are; none where the wait is longer than [`WAITED_FOR`].
    pub calls: u32,
}

/// Gives back what was paid for and did not begin: the next call may begin after this `wait`.
pub async fn rest(db: &Database, lease: &Lease, wait: Duration) -> Result<(), Problem> {
    sqlx::query!(
        "UPDATE webhook_lane SET paid_until = clock_timestamp() + make_interval(secs => $3), paid_by = NULL
         WHERE webhook_id = $1 AND token = $2 AND paid_by = $2",
        lease.webhook.get(),
        lease.token,
        wait.as_secs_f64(),
    )
    .execute(&db.main)
    .await?;
    Ok(())
}

/// Pays for up to so many calls of a lane. Nothing if the lease is lost.
pub async fn pay(db: &Database, lease: &Lease, rate: f64, calls: u32) -> Result<Option<Paid>, Problem> {
    let pause = rate.recip();
    let paid = sqlx::query!(
        r#"WITH lane AS MATERIALIZED (
               -- A holder goes on where its own payment ends, which is a pause earlier. Once the clock was set back, the end of a
               -- payment says nothing: what it paid for is over as soon as it could have been.
               SELECT webhook_id, now, least(now + make_interval(secs => 2.5 + 2 * $3::float8), greatest(now,
                          paid_until - CASE WHEN paid_by = $2 THEN make_interval(secs => $3) ELSE '0' END)) AS start
               FROM (SELECT *, clock_timestamp() AS now FROM webhook_lane WHERE webhook_id = $1 AND token = $2 FOR NO KEY UPDATE) l
           ), paid AS (
               UPDATE webhook_lane l SET paid_until = lane.start + make_interval(secs => $3 * ($4::int + 1)), paid_by = $2
               FROM lane WHERE l.webhook_id = lane.webhook_id AND lane.start <= lane.now + make_interval(secs => $5)
               RETURNING 1
           )
           SELECT extract(epoch FROM start - now)::float8 AS "wait!", EXISTS (SELECT FROM paid) AS "is_paid!" FROM lane"#,
        lease.webhook.get(),
        lease.token,
        pause,
        i32::try_from(calls).map_err(Problem::internal)?,
        WAITED_FOR.as_secs_f64(),
    )
    .fetch_optional(&db.main)
    .await?;
    Ok(paid.map(|paid| Paid {
        wait: Duration::try_from_secs_f64(paid.wait).unwrap_or_default(),
        calls: if paid.is_paid { calls } else { 0 },
    }))
}
