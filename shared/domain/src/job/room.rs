//! How many jobs of an organisation may be unfinished at once.
//!
//! Of dry runs, only a few: each executes what it tries.
//!
//! Checked before a job is accepted, with indexes on unfinished jobs: ended jobs are not read, and an organisation pays
//! only for its own backlog. Far from the limit, requests do not wait for each other. Close to it, acceptances of that
//! organisation run one after the other, so that concurrent ones do not all find the last free place. While a transaction is open for
//! long, the entries of jobs that have ended since are gone through: then a count that is far from the limit holds for a while.

use std::time::{Duration, Instant};

use sqlx::PgConnection;
use uuid::Uuid;

use super::kind::Stored;
use super::name::share_of;
use super::preview::{BEHIND, UNFINISHED};
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::{Problem, SHARE_USED};
use longshore_kernel::services::Services;

/// So close to the limit, acceptances wait for each other: more than are under way at once, of all processes together.
const CLOSE: u32 = 512;
/// The name of the count among the looks that rest ([`rest`](longshore_kernel::rest)).
const COUNT: &str = "unfinished jobs";
/// When it is worth asking again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Makes sure that one more job of this kind, of the organisation or of none, is not over the limit.
pub(super) async fn make_for(
    tx: &mut PgConnection,
    services: &Services,
    organisation: Option<OrganisationId>,
    stored: &Stored,
) -> Result<(), Problem> {
    if stored.is_dry_run {
        make_for_dry_run(tx, share_of(organisation)).await?;
    }
    make(tx, services, organisation).await
}

/// Refuses one more dry run of a share that has as many as it may. Acceptances of them follow each other.
async fn make_for_dry_run(tx: &mut PgConnection, share: Uuid) -> Result<(), Problem> {
    sqlx::query!(
        "SELECT pg_advisory_xact_lock(hashtextextended('dry runs ' || $1::text, 0))",
        share.to_string()
    )
    .execute(&mut *tx)
    .await?;
    let unfinished = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM job
           WHERE sequence IS NULL AND state IN ('queued', 'running', 'retrying') AND share = $1 AND acceptance >= $2"#,
        share,
        BEHIND,
    )
    .fetch_one(tx)
    .await?;
    if unfinished >= UNFINISHED {
        let detail =
            format!("the organisation already has {UNFINISHED} unfinished dry runs, which is the maximum");
        return Err(Problem::new(&SHARE_USED, detail).retry_after(RETRY_AFTER));
    }
    Ok(())
}

/// Makes sure that one more job of the organisation, or of none, is not over the limit.
pub(super) async fn make(
    tx: &mut PgConnection,
    services: &Services,
    organisation: Option<OrganisationId>,
) -> Result<(), Problem> {
    let (share, limit) = (share_of(organisation), services.unfinished_jobs);
    // a worker, which has no limit, counts nothing
    if limit == u32::MAX || services.rests.has(COUNT, share) {
        return Ok(());
    }
    let (started, far) = (Instant::now(), limit.saturating_sub(CLOSE));
    let found = taken(tx, share, far).await?;
    if found < far {
        // in a rest, not so many are accepted that the limit would be passed
        if found < far / 2 {
            services.rests.note(COUNT, share, started.elapsed());
        }
        return Ok(());
    }
    // until the end of the transaction: the next request counts what this one has accepted
    sqlx::query!(
        "SELECT pg_advisory_xact_lock(hashtextextended('unfinished jobs ' || $1::text, 0))",
        share.to_string()
    )
    .execute(&mut *tx)
    .await?;
    if taken(tx, share, limit).await? == limit {
        let detail = format!("the organisation already has {limit} unfinished jobs, which is the maximum");
        return Err(Problem::new(&SHARE_USED, detail).retry_after(RETRY_AFTER));
    }
    Ok(())
}

/// How many are unfinished, counted up to this many.
async fn taken(tx: &mut PgConnection, share: Uuid, places: u32) -> Result<u32, Problem> {
    let taken = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               SELECT FROM job
               WHERE sequence IS NOT NULL AND state IN ('queued', 'running', 'retrying') AND organisation_id = $1
               UNION ALL
               SELECT FROM job
               WHERE sequence IS NULL AND state IN ('queued', 'running', 'retrying') AND share = $1
               LIMIT $2) AS unfinished"#,
        share,
        i64::from(places),
    )
    .fetch_one(tx)
    .await?;
    u32::try_from(taken).map_err(Problem::internal)
}
