//! The line of an organisation's syncs, and stepping out of it: a job that can do nothing but wait for its partner holds up
//! no other. When its time has come it joins the line at its end; that is a new acceptance.

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::receiving::lock_sequence;
use crate::platform::database;

/// Shorter waits are waited for in the line.
const WORTH_IT_SECONDS: f64 = 5.0;

/// Has a job step out, if all that is left of it is a call of its partner that waits for its time.
pub(super) async fn leave(tx: &mut PgConnection, job: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE job j
         SET out_of_line_until = c.next_attempt_at,
             -- chunks of rows that ran since then have made it running
             state = CASE WHEN c.error IS NULL THEN j.state ELSE 'retrying' END
         FROM job_chunk c
         WHERE j.id = $1 AND j.chunks_open = 1 AND j.state IN ('running', 'retrying') AND c.job_id = j.id
           AND c.calls_partner AND c.state = 'queued' AND c.next_attempt_at > now() + make_interval(secs => $2)",
        job,
        WORTH_IT_SECONDS,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Has a job join the line again whose time has come.
pub(super) async fn join(db: &PgPool, job: Uuid) -> Result<(), sqlx::Error> {
    let sequence = sqlx::query_scalar!(
        "SELECT sequence FROM job WHERE id = $1 AND out_of_line_until <= now() AND sequence IS NOT NULL",
        job,
    )
    .fetch_optional(db)
    .await?
    .flatten();
    let Some(sequence) = sequence else { return Ok(()) };
    let mut tx = database::begin(db).await?;
    lock_sequence(&mut tx, sequence).await?;
    sqlx::query!(
        "UPDATE job SET acceptance = nextval('acceptance'), out_of_line_until = NULL
         WHERE id = $1 AND out_of_line_until <= now()",
        job,
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await
}
