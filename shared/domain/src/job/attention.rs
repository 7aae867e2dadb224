//! Jobs that need attention.

use chrono::{DateTime, Utc};

use super::name::CALLING;
use super::shares::LISTED;
use crate::newest_in_shares;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

/// Jobs that are counted: beyond that, it is many.
pub const COUNTED: i64 = 1_000;
/// Jobs under way that are looked at for what does not move: twice as many as an organisation may have.
pub const UNDER_WAY: i64 = 20_000;
/// A job that has waited this long is reported.
const WAITS_SECONDS: f64 = 10.0;
/// Days for which a failed job needs attention.
const DAYS: i32 = 1;
/// Jobs of an e-shop, before the newest that failed, among which the last that succeeded is looked for.
const BEFORE: i64 = 200;
/// The same after them.
const AFTER: i64 = 10_000;
/// A job that is under way and has not moved for so long is stuck.
pub const STUCK_MINUTES: i32 = 10;

/// What there is.
#[derive(Clone, Debug, Default)]
pub struct Attention {
    /// Jobs of the last day that failed, at most [`COUNTED`].
    pub failed: i64,
    /// Of these, those that belong to no e-shop.
    pub failed_of_no_eshop: i64,
    /// When the last of those ended.
    pub failed_at: Option<DateTime<Utc>>,
    /// Jobs that run and have not moved for [`STUCK_MINUTES`], among [`UNDER_WAY`].
    pub stuck: i64,
    /// The one of the stuck jobs that has not moved for longest.
    pub stuck_job: Option<JobId>,
    /// Since when it has not.
    pub stuck_since: Option<DateTime<Utc>>,
    /// When the last of the stuck jobs moved.
    pub stuck_last: Option<DateTime<Utc>>,
    /// Jobs that wait for their next attempt, among the first [`COUNTED`] that are under way.
    pub retrying: i64,
    /// When the last of these was accepted.
    pub retrying_last: Option<DateTime<Utc>>,
    /// Jobs that wait for their partner without a failure, among the same.
    pub at_partner: i64,
    /// When the last of these was accepted.
    pub at_partner_last: Option<DateTime<Utc>>,
    /// Jobs that wait for another, among [`UNDER_WAY`].
    pub behind: Vec<Behind>,
    /// What failed in the last day and has not succeeded since, the most frequent first.
    pub failing: Vec<Failing>,
}

/// Jobs of a kind and an e-shop that failed, and none that succeeded later.
#[derive(Clone, Debug)]
pub struct Failing {
    /// What they do.
    pub kind: String,
    /// Their organisation.
    pub organisation_id: OrganisationId,
    /// Their e-shop.
    pub eshop_id: EshopId,
    /// Name of that.
    pub eshop: String,
    /// How many failed, at most [`COUNTED`].
    pub jobs: i64,
    /// When the first of these was accepted.
    pub since: DateTime<Utc>,
    /// When the last one that succeeded was accepted, among the last jobs of the e-shop.
    pub succeeded_at: Option<DateTime<Utc>>,
    /// Why the newest failed.
    pub error: Option<String>,
}

/// Jobs that wait for the same one.
#[derive(Clone, Debug)]
pub struct Behind {
    /// The job that comes first.
    pub ahead: JobId,
    /// What that does.
    pub kind: String,
    /// Its organisation.
    pub organisation_id: OrganisationId,
    /// Name of its e-shop.
    pub eshop: Option<String>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// How many wait for it.
    pub jobs: i64,
}

#[derive(Debug)]
struct Counts {
    failed: i64,
    failed_of_no_eshop: i64,
    failed_at: Option<DateTime<Utc>>,
    stuck: i64,
    stuck_job: Option<JobId>,
    stuck_since: Option<DateTime<Utc>>,
    stuck_last: Option<DateTime<Utc>>,
    retrying: i64,
    retrying_last: Option<DateTime<Utc>>,
    at_partner: i64,
    at_partner_last: Option<DateTime<Utc>>,
}

/// Looks, by the indexes on what failed and what is under way.
pub async fn read(db: &Database, scope: &Scope) -> Result<Attention, Problem> {
    let (counts, behind, failing) =
        tokio::try_join!(count(db, scope), behind(db, scope), failing(db, scope))?;
    Ok(Attention {
        failed: counts.failed,
        failed_of_no_eshop: counts.failed_of_no_eshop,
        failed_at: counts.failed_at,
        stuck: counts.stuck,
        stuck_job: counts.stuck_job,
        stuck_since: counts.stuck_since,
        stuck_last: counts.stuck_last,
        retrying: counts.retrying,
        retrying_last: counts.retrying_last,
        at_partner: counts.at_partner,
        at_partner_last: counts.at_partner_last,
        behind,
        failing,
    })
}

/// Failed jobs of the last day by e-shop and kind, but for what has succeeded since: by the index on what failed, organisations in shares,
/// and by that of the e-shop's jobs.
async fn failing(db: &Database, scope: &Scope) -> Result<Vec<Failing>, Problem> {
    let found = newest_in_shares!(
        Failing,
        jobs: "(state = 'failed') IS TRUE AND eshop_id IS NOT NULL",
        r#"failing AS (
               SELECT n.*, s.name, row_number() OVER (PARTITION BY n.organisation_id ORDER BY n.created_at DESC, n.id) AS turn
               FROM newest n
               CROSS JOIN LATERAL (SELECT name, organisation_id FROM eshop WHERE id = ANY (ARRAY[n.eshop_id]) LIMIT 1) AS s
               WHERE in_scope($1, s.organisation_id) AND in_eshop($3, n.eshop_id)
                 -- those of its e-shop in their order: of all that succeeded, Postgres may make a bitmap
                 AND (SELECT true FROM (
                          SELECT kind, state FROM job
                          WHERE eshop_id = ANY (ARRAY[n.eshop_id]) AND created_at > n.created_at
                          ORDER BY eshop_id, created_at, id LIMIT (SELECT $7::bigint)) AS j
                      WHERE j.kind = n.kind AND j.state = 'succeeded' LIMIT 1) IS NULL
           ), named AS (
               SELECT * FROM failing ORDER BY turn, created_at DESC, id LIMIT $8
           )
           SELECT f.kind AS "kind!", f.organisation_id AS "organisation_id!: OrganisationId", f.eshop_id AS "eshop_id!: EshopId",
                  f.name AS "eshop!", row.jobs AS "jobs!", row.since AS "since!",
                  (SELECT error FROM job WHERE id = ANY (ARRAY[f.id]) LIMIT 1) AS error,
                  (SELECT max(j.created_at) FROM (
                       SELECT kind, state, created_at FROM job
                       WHERE eshop_id = ANY (ARRAY[f.eshop_id]) AND created_at < f.created_at
                       ORDER BY eshop_id DESC, created_at DESC, id DESC LIMIT (SELECT $6::bigint)
                   ) AS j WHERE j.kind = f.kind AND j.state = 'succeeded') AS succeeded_at
           FROM named f
           CROSS JOIN LATERAL (
               SELECT count(*) AS jobs, min(created_at) AS since FROM (
                   SELECT created_at FROM job
                   WHERE (state = 'failed') IS TRUE AND eshop_id IS NOT NULL
                     -- in an order of which the other indexes on an organisation and an e-shop have no part
                     AND organisation_id = f.organisation_id AND eshop_id = f.eshop_id AND kind <= f.kind
                     AND (kind, created_at) > (f.kind, now() - make_interval(days => $4))
                   ORDER BY kind DESC, created_at DESC LIMIT (SELECT $9::bigint)) AS run) AS row
           ORDER BY row.jobs DESC, row.since, f.eshop_id, f.kind"#,
        scope.organisations(),
        scope.eshop(),
        DAYS,
        BEFORE,
        AFTER,
        LISTED,
        COUNTED,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found)
}

async fn count(db: &Database, scope: &Scope) -> Result<Counts, Problem> {
    let found = sqlx::query_as!(
        Counts,
        r#"WITH under_way AS MATERIALIZED (
               SELECT id, state, source, acceptance, created_at, coalesce(progressed_at, changed_at) AS changed_at FROM job
               WHERE state IN ('queued', 'running', 'retrying')
                 AND in_scope($1, organisation_id, organisations)
                 AND in_eshop($2, eshop_id)
               ORDER BY acceptance LIMIT $7
           ), live AS MATERIALIZED (
               SELECT * FROM under_way ORDER BY acceptance LIMIT $3
           ), stuck AS (
               SELECT id, changed_at FROM under_way
               WHERE state = 'running' AND changed_at < now() - make_interval(mins => $4)
           )
           SELECT f.failed AS "failed!", f.failed_of_no_eshop AS "failed_of_no_eshop!", f.failed_at,
                  (SELECT count(*) FROM stuck) AS "stuck!",
                  (SELECT id FROM stuck ORDER BY changed_at LIMIT 1) AS "stuck_job: JobId",
                  (SELECT min(changed_at) FROM stuck) AS stuck_since,
                  (SELECT max(changed_at) FROM stuck) AS stuck_last,
                  (SELECT count(*) FROM live WHERE state = 'retrying') AS "retrying!",
                  (SELECT max(created_at) FROM live WHERE state = 'retrying') AS retrying_last,
                  p.jobs AS "at_partner!", p.last AS at_partner_last
           FROM (SELECT count(*) AS failed, count(*) FILTER (WHERE eshop_id IS NULL) AS failed_of_no_eshop,
                        max(ended_at) FILTER (WHERE eshop_id IS NULL) AS failed_at FROM (
                     SELECT eshop_id, coalesce(finished_at, created_at) AS ended_at FROM job
                     WHERE state = 'failed' AND created_at > now() - interval '1 day'
                       AND in_scope($1, organisation_id, organisations)
                       AND in_eshop($2, eshop_id)
                     ORDER BY created_at DESC, id DESC LIMIT $3) AS f) AS f
           CROSS JOIN (SELECT count(*) AS jobs, max(live.created_at) AS last FROM live CROSS JOIN LATERAL (
                           SELECT state, calls_partner, next_attempt_at, waits_since FROM job_chunk
                           WHERE job_id = ANY (ARRAY[live.id]) AND number = $6 LIMIT 1) AS c
                       WHERE live.source IS NOT NULL AND live.state <> 'retrying' AND c.state = 'queued' AND c.calls_partner
                         AND c.next_attempt_at > now() AND c.waits_since < now() - make_interval(secs => $5)) AS p"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
        STUCK_MINUTES,
        WAITS_SECONDS,
        CALLING,
        UNDER_WAY,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(found)
}

/// Sequences with jobs that have waited for a while, the longest first, each with its first job; and pulls that wait for
/// one of the same source. By the index on the jobs of sequences, each of which is of one organisation. The first of each
/// organisation, then the next of each.
async fn behind(db: &Database, scope: &Scope) -> Result<Vec<Behind>, Problem> {
    let found = sqlx::query_as!(
        Behind,
        r#"WITH live AS (
               SELECT id, organisation_id, kind, state, source, sequence, acceptance, out_of_line_until,
                      coalesce(progressed_at, changed_at) AS changed_at FROM job
               WHERE sequence IS NOT NULL AND state IN ('queued', 'running', 'retrying')
                 AND in_scope($1, organisation_id) AND in_eshop($2, eshop_id)
               ORDER BY organisation_id, acceptance LIMIT $3
           ), waiting AS (
               -- by windows: a join of them with themselves may be planned as a full product
               SELECT id, organisation_id, changed_at,
                      CASE WHEN out_of_line_until IS NULL
                           THEN first_value(id) OVER (PARTITION BY sequence, out_of_line_until IS NULL, kind = 'stock.send' ORDER BY acceptance)
                           WHEN state = 'queued' AND source IS NOT NULL AND kind <> 'stock.send'
                           THEN (array_agg(id) FILTER (WHERE state IN ('running', 'retrying')) OVER (PARTITION BY sequence, kind, source))[1]
                      END AS ahead
               FROM live
           ), behind AS (
               SELECT ahead, organisation_id, count(*) AS jobs, min(changed_at) AS since
               FROM waiting WHERE id <> ahead GROUP BY ahead, organisation_id
           ), late AS (
               SELECT *, row_number() OVER (PARTITION BY organisation_id ORDER BY jobs DESC, ahead) AS turn
               FROM behind WHERE since < now() - make_interval(secs => $4)
           ), named AS (
               SELECT * FROM late ORDER BY turn, jobs DESC, ahead LIMIT $5
           )
           SELECT n.ahead AS "ahead!: JobId", j.kind AS "kind!", n.organisation_id AS "organisation_id!: OrganisationId",
                  (SELECT name FROM eshop WHERE id = ANY (ARRAY[j.eshop_id]) LIMIT 1) AS eshop, j.started_at AS "started_at?",
                  n.jobs AS "jobs!"
           FROM named n
           CROSS JOIN LATERAL (SELECT kind, eshop_id, started_at FROM job WHERE id = ANY (ARRAY[n.ahead]) LIMIT 1) AS j
           ORDER BY n.jobs DESC, n.ahead"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        UNDER_WAY,
        WAITS_SECONDS,
        LISTED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
