//! What the holder of a claim does: renewing it, putting the chunk back, and ending it. Each works only while the claim is valid.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};

use super::{Claim, LEASE_SECONDS};
use crate::job::line;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::JobId;
use longshore_kernel::problem::Problem;

/// The wait of a chunk that could not be tried …
const FIRST_PUT_OFF: Duration = Duration::from_secs(1);
/// … up to which it grows.
const LONGEST_PUT_OFF: Duration = Duration::from_secs(30);

/// The parts of a claim that are needed to renew or release it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// Its job.
    pub job: JobId,
    /// Its number in the job.
    pub number: i32,
    /// The token of the claim.
    pub token: i64,
    /// It has no items, and calls the partner.
    pub calls_partner: bool,
}

/// Jobs, numbers and tokens, as `unnest` takes them.
fn columns(held: &[Held]) -> (Vec<JobId>, Vec<i32>, Vec<i64>) {
    held.iter().map(|h| (h.job, h.number, h.token)).collect()
}

/// Renews all leases of a process in one statement; returns those that are still valid, or were ended by their holder. It does
/// not wait for locks: a locked chunk is being ended or taken back, and one row must not cost all others their lease.
// What runs is leased. Here and below that is asked instead of the state, so that a chunk is found by its key: among all that
// run, there may be the dead entries of all that ran since a long transaction began.
pub async fn renew(db: &PgPool, held: &[Held]) -> Result<Vec<Held>, Problem> {
    let (jobs, numbers, tokens) = columns(held);
    let places = sqlx::query_scalar!(
        r#"WITH held AS MATERIALIZED (
               SELECT * FROM unnest($1::uuid[], $2::int[], $3::bigint[]) WITH ORDINALITY AS h (job_id, number, token, place)
           ), free AS MATERIALIZED (
               SELECT c.job_id, c.number FROM held h CROSS JOIN LATERAL (
                   SELECT job_id, number FROM job_chunk c
                   WHERE c.job_id = h.job_id AND c.number = h.number AND c.token = h.token AND c.leased_until IS NOT NULL
                   FOR UPDATE SKIP LOCKED) AS c
           ), renewed AS (
               UPDATE job_chunk c SET leased_until = now() + make_interval(secs => $4)
               FROM free WHERE c.job_id = free.job_id AND c.number = free.number
           )
           SELECT h.place AS "place!" FROM held h CROSS JOIN LATERAL (
               SELECT FROM job_chunk c
               WHERE c.job_id = h.job_id AND c.number = h.number AND c.token = h.token
                 AND (c.leased_until IS NOT NULL OR c.state IN ('succeeded', 'failed'))
               LIMIT 1) AS valid"#,
        &jobs as &[JobId],
        &numbers,
        &tokens,
        LEASE_SECONDS,
    )
    .fetch_all(db)
    .await?;
    let places = places.into_iter().filter_map(|place| usize::try_from(place - 1).ok());
    Ok(places.filter_map(|place| held.get(place).copied()).collect())
}

/// Puts a chunk back for a later attempt: it failed for a reason that may pass, or its process stops. Returns whether the
/// claim was still valid.
pub async fn postpone(
    db: &PgPool,
    claim: Held,
    wait: Duration,
    error: Option<&str>,
) -> Result<Hold, Problem> {
    put_back(db, claim, wait, None, error, error.is_some()).await
}

/// Puts a chunk back that could not be tried, because Postgres was away or short of something: for as long as it has waited so far, up to
/// a limit, from which on its job says why. No attempt is spent. Returns whether the claim was still valid.
pub async fn put_off(db: &PgPool, claim: Held, reason: &str) -> Result<Hold, Problem> {
    let waited = sqlx::query_scalar!(
        "SELECT extract(epoch FROM now() - waits_since)::float8 FROM job_chunk WHERE job_id = $1 AND number = $2",
        claim.job.get(),
        claim.number,
    )
    .fetch_optional(db)
    .await?;
    let waited = Duration::try_from_secs_f64(waited.flatten().unwrap_or_default()).unwrap_or_default();
    let reason = (waited >= LONGEST_PUT_OFF).then_some(reason);
    put_back(db, claim, waited.clamp(FIRST_PUT_OFF, LONGEST_PUT_OFF), None, reason, false).await
}

/// Puts a chunk back until a moment before which it cannot succeed, and says why; no attempt is spent. Returns whether the
/// claim was still valid.
pub async fn pause(db: &PgPool, claim: Held, until: DateTime<Utc>, reason: &str) -> Result<Hold, Problem> {
    put_back(db, claim, Duration::ZERO, Some(until), Some(reason), false).await
}

async fn put_back(
    db: &PgPool,
    claim: Held,
    wait: Duration,
    until: Option<DateTime<Utc>>,
    error: Option<&str>,
    spends_attempt: bool,
) -> Result<Hold, Problem> {
    let mut tx = db.begin().await?;
    let row = sqlx::query!(
        r#"WITH postponed AS (
               UPDATE job_chunk
               SET state = 'queued', leased_until = NULL, error = coalesce($5, error),
                   next_attempt_at = coalesce($6::timestamptz, now() + make_interval(secs => $4)),
                   waits_since = CASE WHEN coalesce($6, now() + make_interval(secs => $4)) > now()
                                      THEN coalesce(waits_since, now()) ELSE waits_since END,
                   attempts = attempts - (NOT $7::boolean)::int
               WHERE job_id = $1 AND number = $2 AND token = $3 AND leased_until IS NOT NULL
               RETURNING job_id
           ), retrying AS (
               UPDATE job SET state = 'retrying', error = $5, changed_at = now()
               FROM postponed
               WHERE job.id = postponed.job_id AND $5::text IS NOT NULL AND state IN ('queued', 'running', 'retrying')
           )
           SELECT count(*) AS "count!" FROM postponed"#,
        claim.job.get(),
        claim.number,
        claim.token,
        wait.as_secs_f64(),
        error,
        until as Option<DateTime<Utc>>,
        spends_attempt,
    )
    .fetch_one(&mut *tx)
    .await?;
    if claim.calls_partner {
        line::leave(&mut tx, claim.job).await?;
    }
    tx.commit().await?;
    Ok(if row.count == 1 { Hold::Kept } else { Hold::Lost })
}

/// A chunk that calls a partner has come on, in the transaction that records how far: what failed before is forgotten.
/// When the claim is lost, nothing may be recorded.
pub async fn progressed(tx: &mut PgConnection, claim: &Claim) -> Result<Hold, sqlx::Error> {
    let held = sqlx::query!(
        "UPDATE job_chunk SET attempts = 1, crashes = 0, deaths_alone = 0, error = NULL, waits_since = NULL
         WHERE job_id = $1 AND number = $2 AND token = $3 AND leased_until IS NOT NULL",
        claim.job.get(),
        claim.number,
        claim.token,
    )
    .execute(tx)
    .await?;
    Ok(Hold::of_rows(held.rows_affected()))
}

/// A process that lost its claim although it lives (it could not reach Postgres to renew it) takes back the suspicion that
/// its chunk had killed it.
pub async fn still_alive(db: &PgPool, claim: &Claim) -> Result<(), Problem> {
    sqlx::query!(
        "UPDATE job_chunk SET crashes = crashes - 1
         WHERE job_id = $1 AND number = $2 AND token > $3 AND crashes > 0 AND state IN ('queued', 'running')",
        claim.job.get(),
        claim.number,
        claim.token,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// What a chunk came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Items that were created or altered.
    pub changed: i32,
    /// Items that were as they should be.
    pub unchanged: i32,
    /// Items that were refused.
    pub failed: i32,
}

/// Ends a chunk and counts its progress, in the transaction of its changes. When the claim is lost, the
/// transaction must be rolled back.
pub async fn end(tx: &mut PgConnection, claim: &Claim, count: Count) -> Result<Hold, sqlx::Error> {
    let ended = sqlx::query!(
        "UPDATE job_chunk
         SET state = 'succeeded', leased_until = NULL, keys = NULL, error = NULL, changed = $4, unchanged = $5,
             failed = $6, finished_at = clock_timestamp(),
             -- of a dry run, to be applied
             payload = CASE WHEN $7 THEN payload END, compared = CASE WHEN $7 THEN $8::text[] END
         WHERE job_id = $1 AND number = $2 AND token = $3 AND leased_until IS NOT NULL",
        claim.job.get(),
        claim.number,
        claim.token,
        count.changed,
        count.unchanged,
        count.failed,
        claim.is_dry_run,
        claim.compared.as_deref() as Option<&[Option<String>]>,
    )
    .execute(tx)
    .await?;
    Ok(Hold::of_rows(ended.rows_affected()))
}

/// Marks a chunk as failed permanently, with all its items.
pub async fn fail(tx: &mut PgConnection, claim: &Claim, error: &str) -> Result<Hold, sqlx::Error> {
    let failed = sqlx::query!(
        "UPDATE job_chunk
         SET state = 'failed', leased_until = NULL, error = $4, failed = item_count, finished_at = clock_timestamp()
         WHERE job_id = $1 AND number = $2 AND token = $3 AND leased_until IS NOT NULL",
        claim.job.get(),
        claim.number,
        claim.token,
        error,
    )
    .execute(tx)
    .await?;
    Ok(Hold::of_rows(failed.rows_affected()))
}
