//! Failed jobs, grouped by error, and retrying a whole group.
//!
//! Errors that differ only in numbers and ids are the same error; the status that answered a call is not such a number. Only the
//! newest failures are read, with the index on them.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::control;
use super::item_error::KEPT;
use longshore_kernel::access::Scope;
use longshore_kernel::context::Context;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::{CONFLICT, Problem};
use longshore_kernel::services::Services;

/// Failed jobs that are looked at.
pub const LOOKED_AT: i64 = 2_000;
/// Groups that are shown.
const GROUPS: i64 = 100;
/// Jobs that one retry of a group puts in the queue again.
pub const RETRIED_AT_ONCE: i64 = 500;

/// Numbers and ids, which do not distinguish errors. The status that answered a call does ("HTTP 503").
const NUMBERS: &str = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<!(HTTP|status|answered) )(?<![0-9])[0-9]+";

/// Jobs that failed of the same.
#[derive(Clone, Debug)]
pub struct Group {
    /// What they were doing.
    pub kind: String,
    /// What they failed of, with `…` for every number and id except the status of a call.
    pub error: String,
    /// Names the group in addresses.
    pub key: String,
    /// How many.
    pub jobs: i64,
    /// Of how many organisations.
    pub organisations: i64,
    /// When the first of them failed.
    pub first: DateTime<Utc>,
    /// When the last of them failed.
    pub last: DateTime<Utc>,
    /// The last of them.
    pub newest: JobId,
}

/// The groups, the one that failed last first.
pub async fn groups(db: &Database, scope: &Scope, key: Option<&str>) -> Result<Vec<Group>, Problem> {
    let found = sqlx::query_as!(
        Group,
        r#"WITH failed AS MATERIALIZED (
               SELECT id, kind, coalesce(organisations, ARRAY[organisation_id]) AS organisations,
                      coalesce(finished_at, created_at) AS at, left(coalesce(error, 'no reason was recorded'), 500) AS error
               FROM job
               WHERE CASE WHEN $1::uuid[] IS NULL THEN state = ANY (ARRAY['failed'])
                          ELSE state = 'failed' AND in_scope($1, organisation_id, organisations) AND in_eshop($2, eshop_id) END
               ORDER BY CASE WHEN $1 IS NULL THEN state END DESC, created_at DESC, id DESC
               LIMIT CASE WHEN $1 IS NULL THEN (SELECT $3::bigint) ELSE $3 END
           ), alike AS MATERIALIZED (
               -- most errors are the same to the letter: their numbers are replaced once
               SELECT kind, error, regexp_replace(error, $6::text, '…', 'g') AS same
               FROM failed GROUP BY kind, error
           )
           SELECT a.kind AS "kind!", a.same AS "error!", md5(a.kind || ' ' || a.same) AS "key!",
                  count(*) FILTER (WHERE o.place = 1) AS "jobs!", count(DISTINCT o.organisation) AS "organisations!",
                  min(f.at) AS "first!", max(f.at) AS "last!", (array_agg(f.id ORDER BY f.at DESC))[1] AS "newest!"
           FROM failed f
           JOIN alike a ON a.kind = f.kind AND a.error = f.error
           CROSS JOIN LATERAL unnest(f.organisations) WITH ORDINALITY AS o (organisation, place)
           GROUP BY a.kind, a.same
           HAVING $4::text IS NULL OR md5(a.kind || ' ' || a.same) = $4
           ORDER BY max(f.at) DESC LIMIT $5"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        LOOKED_AT,
        key,
        GROUPS,
        NUMBERS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// How a retry of a group went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retried {
    /// Jobs that are in the queue again.
    pub again: usize,
    /// Jobs that could not be retried: another caller retried them, or they have nothing to retry.
    pub left: usize,
}

/// Retries the jobs of a group, at most [`RETRIED_AT_ONCE`], the oldest first: each in its own transaction, with its own
/// audit record, like a retry of that job.
pub async fn retry_group(services: &Services, context: &Context, key: &str) -> Result<Retried, Problem> {
    let ids: Arc<[JobId]> = members(&services.db, context.scope(), key).await?.into();
    if ids.is_empty() {
        return Err(Problem::not_found("group of failures"));
    }
    let mut retried = Retried::default();
    for id in ids.iter() {
        match control::retry(services, context, *id).await {
            Ok(_) => retried.again += 1,
            Err(problem) if std::ptr::eq(problem.kind(), &raw const CONFLICT) => retried.left += 1,
            Err(problem) => return Err(problem),
        }
    }
    Ok(retried)
}

async fn members(db: &Database, scope: &Scope, key: &str) -> Result<Vec<JobId>, Problem> {
    let found = sqlx::query_scalar!(
        r#"WITH failed AS (
               SELECT id, kind, created_at,
                      regexp_replace(left(coalesce(error, 'no reason was recorded'), 500), $6::text, '…', 'g') AS error
               FROM job
               WHERE state = 'failed' AND in_scope($1, organisation_id, organisations)
                 AND in_eshop($2, eshop_id)
               ORDER BY created_at DESC, id DESC LIMIT $3
           )
           SELECT id AS "id: JobId" FROM failed WHERE md5(kind || ' ' || error) = $4 ORDER BY created_at, id LIMIT $5"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        LOOKED_AT,
        key,
        RETRIED_AT_ONCE,
        NUMBERS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// Jobs that are looked at for refused items: the newest with any …
pub const REFUSING: i64 = 100;
/// … among the newest of all, …
const NEWEST: i64 = 5_000;
/// … until they have refused so many items together. The newest is looked at in any case.
const REFUSED: i64 = 30_000;

/// Items that were refused for the same reason, of jobs that succeeded otherwise.
#[derive(Clone, Debug)]
pub struct Reason {
    /// What the jobs were doing.
    pub kind: String,
    /// The reason.
    pub code: String,
    /// The latest message.
    pub message: String,
    /// How many items.
    pub items: i64,
    /// Whether there may be more: a job refused more than are kept.
    pub is_more: bool,
    /// Of how many jobs.
    pub jobs: i64,
    /// When the last of them was accepted.
    pub last: DateTime<Utc>,
    /// The last of them.
    pub newest: JobId,
}

/// What items were refused for lately, the most frequent reason first.
pub async fn reasons(db: &Database, scope: &Scope) -> Result<Vec<Reason>, Problem> {
    let found = sqlx::query_as!(
        Reason,
        r#"WITH newest AS (
               SELECT id, kind, created_at, failed, sum(failed) OVER (ORDER BY created_at DESC, id DESC) AS so_far FROM (
                   SELECT * FROM job
                   WHERE in_scope($1, organisation_id, organisations)
                     AND in_eshop($2, eshop_id)
                   ORDER BY created_at DESC, id DESC LIMIT $3
               ) AS newest
               WHERE failed > 0 AND state = 'succeeded' ORDER BY created_at DESC, id DESC LIMIT $4
           ), refusing AS (
               SELECT * FROM newest WHERE so_far - failed < $5
           )
           SELECT r.kind AS "kind!", e.code AS "code!", count(*) AS "items!", bool_or(r.failed > $7) AS "is_more!",
                  count(DISTINCT r.id) AS "jobs!",
                  max(r.created_at) AS "last!", (array_agg(e.message ORDER BY r.created_at DESC))[1] AS "message!",
                  (array_agg(r.id ORDER BY r.created_at DESC))[1] AS "newest!"
           FROM refusing r
           CROSS JOIN LATERAL (
               SELECT code, message FROM job_item_error e WHERE e.job_id = r.id AND NOT e.notice ORDER BY index LIMIT $7
           ) e
           GROUP BY r.kind, e.code ORDER BY count(*) DESC, r.kind, e.code LIMIT $6"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        NEWEST,
        REFUSING,
        REFUSED,
        GROUPS,
        i64::from(KEPT),
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
