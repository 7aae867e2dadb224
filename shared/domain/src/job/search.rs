//! Searching jobs, newest or oldest first, in bounded time however many there are.
//!
//! What an index knows (organisation, e-shop, time, being under way, having failed) narrows the search down; everything
//! else is looked at job by job, and at most [`WINDOW`] of them. A page that is cut short by that says so, and where the
//! next one begins.

mod count;

pub use count::{COUNTED, Counts, counts};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::types::Json;
use uuid::Uuid;

use super::kind::{JobKind, JobState};
use super::waiting::WaitsFor;
use crate::list::criteria::{all_of, containing};
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

/// Jobs a page.
pub const PAGE: usize = 50;

/// Jobs that one page looks at.
pub const WINDOW: i64 = 20_000;

/// Jobs that are known to have changed one entity: the newest of them.
const BY_ENTITY: i64 = 200;

/// What is wanted; all of it is required.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Of this organisation alone.
    pub organisation: Option<OrganisationId>,
    /// Of this e-shop.
    pub eshop: Option<EshopId>,
    /// Of this kind.
    pub kind: Option<JobKind>,
    /// In this state.
    pub state: Option<JobState>,
    /// That changed this entity.
    pub entity: Option<Uuid>,
    /// With this in their error.
    pub error: Option<String>,
    /// Accepted at this moment or later.
    pub since: Option<DateTime<Utc>>,
    /// Accepted before this moment.
    pub until: Option<DateTime<Utc>>,
    /// Behind this cursor.
    pub after: Option<Cursor>,
    /// The oldest first, and not the newest.
    pub oldest: bool,
    /// Jobs a page; nothing: [`PAGE`].
    pub size: Option<usize>,
}

/// Where a page ends.
pub type Cursor = longshore_kernel::cursor::Cursor<JobId>;

/// A job as a list of them shows it.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its id.
    pub id: JobId,
    /// What it does.
    pub kind: String,
    /// Its state.
    pub state: JobState,
    /// Its organisation, where it has one.
    pub organisation_id: Option<OrganisationId>,
    /// Name of that.
    pub organisation: Option<String>,
    /// How many organisations it is about, where there are several.
    pub organisations: Option<i32>,
    /// Its e-shop, where it has one.
    pub eshop_id: Option<EshopId>,
    /// Name of that.
    pub eshop: Option<String>,
    /// Items.
    pub total: i32,
    /// Items executed.
    pub done: i32,
    /// Items refused.
    pub failed: i32,
    /// Withheld by its guard.
    pub withheld: i32,
    /// Why it failed, or waits.
    pub error: Option<String>,
    /// What it waits for.
    pub waits_for: Option<Json<WaitsFor>>,
    /// The requesting actor.
    pub actor: String,
    /// When it was accepted.
    pub created_at: DateTime<Utc>,
    /// When its first chunk was begun.
    pub started_at: Option<DateTime<Utc>>,
    /// When its last attempt began: then, or when it went on after a wait in which nothing of it ran.
    pub attempt_started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The jobs in their order, as many as a page has.
    pub jobs: Vec<Line>,
    /// Where the next page begins, if there may be more.
    pub next: Option<Cursor>,
    /// As many jobs were looked at as one search may, and fewer than a page of them matched.
    pub cut_short: bool,
}

/// States that few jobs are in, and an index knows.
const INDEXED: [JobState; 5] =
    [JobState::Receiving, JobState::Queued, JobState::Running, JobState::Retrying, JobState::Failed];

/// States that jobs end in. An index has all jobs of each in the order of time.
const ENDED: [JobState; 3] = [JobState::Succeeded, JobState::Failed, JobState::Cancelled];

/// The name of the column that this index begins with.
const STATE: &str = "state";

/// The jobs that one search looks at, in an order: newest first, or oldest first; `$1` to `$10` are those of [`Inner`]. The order
/// begins with the column that the search names, so that only the index of that column has it. Few jobs may match where none is named:
/// then the bound is known when Postgres plans, so that it finds them by their index and sorts them.
macro_rules! looked_at {
    ($output:ident, newest, $($rest:tt)*) => { looked_at!(@ $output, "(created_at, id) < ($8, $9)", " DESC", $($rest)*) };
    ($output:ident, oldest, $($rest:tt)*) => { looked_at!(@ $output, "(created_at, id) > ($7, $9)", " ASC", $($rest)*) };
    (@ $output:ident, $behind:literal, $direction:literal, $head:literal, $tail:literal, $end:literal, $inner:expr $(, $parameter:expr)* $(,)?) => {
        sqlx::query_as!(
            $output,
            $head
            + r#" (
                SELECT * FROM job
                WHERE in_scope($1, organisation_id, organisations)
                  AND CASE WHEN $10::text = 'organisation' THEN organisation_id = ANY (ARRAY[$2::uuid])
                      ELSE in_eshop($2, organisation_id) END
                  AND CASE WHEN $10 = 'eshop' THEN eshop_id = ANY (ARRAY[$3::uuid]) ELSE in_eshop($3, eshop_id) END
                  AND CASE WHEN $10 = 'state' THEN state = ANY (ARRAY[$4::text])
                      ELSE $4 IS NULL OR state = $4 END
                  AND (NOT $5 OR error IS NOT NULL)
                  AND in_scope($6, id)
                  AND ($7::timestamptz IS NULL OR created_at >= $7)
                  AND ($8::timestamptz IS NULL OR created_at <= $8)
                  AND ($9::uuid IS NULL OR "#
            + $behind
            + ") ORDER BY CASE $10 WHEN 'state' THEN state END"
            + $direction
            + ", CASE $10 WHEN 'eshop' THEN eshop_id WHEN 'organisation' THEN organisation_id END"
            + $direction
            + ", created_at"
            + $direction
            + ", id"
            + $direction
            + $tail
            + " ORDER BY CASE $10 WHEN 'state' THEN j.state END"
            + $direction
            + ", CASE $10 WHEN 'eshop' THEN j.eshop_id WHEN 'organisation' THEN j.organisation_id END"
            + $direction
            + ", j.created_at"
            + $direction
            + ", j.id"
            + $direction
            + $end,
            $inner.organisations as Option<&[OrganisationId]>,
            $inner.organisation as Option<OrganisationId>,
            $inner.eshop as Option<EshopId>,
            $inner.state,
            $inner.with_error,
            $inner.ids.as_deref() as Option<&[JobId]>,
            $inner.since,
            $inner.until,
            $inner.after as Option<JobId>,
            $inner.named
            $(, $parameter)*
        )
    };
}

/// A page of jobs in an order.
macro_rules! page {
    ($order:ident, $inner:expr, $wanted:expr, $error:expr, $size:expr, $window:expr, $db:expr) => {
        looked_at!(
            Line,
            $order,
            r#"SELECT j.id AS "id!", j.kind AS "kind!", j.state AS "state!: JobState",
                      j.organisation_id AS "organisation_id: OrganisationId", j.eshop_id AS "eshop_id: EshopId",
                      (SELECT name FROM organisation o WHERE o.id = j.organisation_id) AS organisation,
                      cardinality(j.organisations) AS organisations,
                      (SELECT name FROM eshop s WHERE s.id = j.eshop_id) AS eshop,
                      j.total AS "total!", j.done AS "done!", j.failed AS "failed!", j.withheld AS "withheld!", j.error,
                      CASE WHEN j.state IN ('queued', 'running', 'retrying') THEN job_waits_for(j.id) END
                          AS "waits_for: Json<WaitsFor>",
                      j.actor_name AS "actor!", j.created_at AS "created_at!", j.started_at,
                      coalesce(j.attempt_started_at, j.started_at) AS attempt_started_at, j.finished_at
               FROM"#,
            r#" LIMIT CASE WHEN $10 IS NULL THEN $11 ELSE (SELECT $11::bigint) END) AS j
               WHERE ($12::text IS NULL OR j.kind = $12) AND ($13::text IS NULL OR j.state = $13)
                 AND ($14::text IS NULL OR j.error ILIKE $14) AND ($15::uuid IS NULL OR j.eshop_id = $15)"#,
            " LIMIT $16",
            $inner,
            $window,
            $wanted.kind.map(JobKind::as_str),
            $wanted.state.map(JobState::as_str),
            $error.as_deref(),
            $wanted.eshop as Option<EshopId>,
            i64::try_from($size + 1).map_err(Problem::internal)?,
        )
        .fetch_all(&$db.lists)
        .await
    };
}

/// The last job that a search looked at, where there may be more.
macro_rules! edge {
    ($order:ident, $inner:expr, $db:expr) => {
        looked_at!(
            Edge,
            $order,
            r#"SELECT j.created_at AS "at!", j.id AS "id!" FROM"#,
            " LIMIT 1 OFFSET CASE WHEN $10 IS NULL THEN $11 ELSE (SELECT $11::bigint) END) AS j",
            "",
            $inner,
            WINDOW - 1,
        )
        .fetch_optional(&$db.lists)
        .await
    };
}

/// What narrows a search down by an index.
struct Inner<'w> {
    organisations: Option<&'w [OrganisationId]>,
    organisation: Option<OrganisationId>,
    eshop: Option<EshopId>,
    state: Option<&'static str>,
    with_error: bool,
    ids: Option<Vec<JobId>>,
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
    after: Option<JobId>,
    /// The column whose index has the jobs in their order; nothing: that of time alone, or there are few.
    named: Option<&'static str>,
}

struct Edge {
    at: DateTime<Utc>,
    id: JobId,
}

impl<'w> Inner<'w> {
    async fn of(db: &Database, scope: &'w Scope, wanted: &Filter) -> Result<Self, Problem> {
        let ids = match wanted.entity {
            Some(entity) => Some(jobs_of(db, entity).await?),
            None => None,
        };
        // one organisation is compared: its index then has the order, too
        let (organisations, organisation) = match scope.organisations() {
            Some([one]) if wanted.organisation.is_none_or(|wanted| wanted == *one) => (None, Some(*one)),
            several => (several, wanted.organisation),
        };
        let eshop = scope.eshop().or(wanted.eshop);
        let state = wanted.state.filter(|state| INDEXED.contains(state)).map(JobState::as_str);
        let named = match (eshop, organisation) {
            // few are in such a state, have an error, or changed one entity
            _ if state.is_some() || wanted.error.is_some() || ids.is_some() => None,
            (Some(_), _) => Some("eshop"),
            (None, Some(_)) => Some("organisation"),
            (None, None) => None,
        };
        // the bound of a time filter is excluded, but the place where the next page begins may be included
        let until = wanted.until.map(|until| until - chrono::TimeDelta::microseconds(1));
        let cursor = wanted.after.map(|cursor| cursor.at);
        let (since, until) = if wanted.oldest {
            (wanted.since.max(cursor), until)
        } else {
            (wanted.since, until.into_iter().chain(cursor).min())
        };
        Ok(Self {
            organisations,
            organisation,
            eshop,
            state,
            with_error: wanted.error.is_some(),
            ids,
            since,
            until,
            after: wanted.after.map(|cursor| cursor.id),
            named,
        })
    }

    /// By the index of the jobs that ended, if that knows all that is wanted: then nothing else is looked at.
    fn or_ended(self, wanted: &Filter) -> Self {
        let is_narrow = self.organisations.is_some()
            || self.organisation.is_some()
            || self.eshop.is_some()
            || self.ids.is_some()
            || wanted.kind.is_some()
            || wanted.error.is_some();
        match wanted.state {
            Some(state) if !is_narrow && ENDED.contains(&state) => {
                Self { state: Some(state.as_str()), named: Some(STATE), ..self }
            }
            _ => self,
        }
    }

    fn is_of_ended(&self) -> bool {
        self.named == Some(STATE)
    }
}

/// Searches.
pub async fn search(db: &Database, scope: &Scope, wanted: &Filter) -> Result<Page, Problem> {
    let inner = Inner::of(db, scope, wanted).await?.or_ended(wanted);
    let error = wanted.error.as_deref().map(containing);
    let size = wanted.size.unwrap_or(PAGE);
    let window =
        if inner.is_of_ended() { i64::try_from(size + 1).map_err(Problem::internal)? } else { WINDOW };
    let mut jobs = if wanted.oldest {
        page!(oldest, inner, wanted, error, size, window, db)?
    } else {
        page!(newest, inner, wanted, error, size, window, db)?
    };
    if jobs.len() > size {
        jobs.truncate(size);
        let next = jobs.last().map(|job| Cursor { at: job.created_at, id: job.id });
        return Ok(Page { jobs, next, cut_short: false });
    }
    if inner.is_of_ended() {
        return Ok(Page { jobs, next: None, cut_short: false });
    }
    let edge = if wanted.oldest { edge!(oldest, inner, db)? } else { edge!(newest, inner, db)? };
    let next = edge.map(|edge| Cursor { at: edge.at, id: edge.id });
    Ok(Page { jobs, cut_short: next.is_some(), next })
}

/// The criteria of lists that say the same.
pub async fn criteria(db: &Database, wanted: &Filter) -> Result<Value, Problem> {
    let ids = match wanted.entity {
        Some(entity) => Some(jobs_of(db, entity).await?),
        None => None,
    };
    let accepted = all_of(
        [("gte", wanted.since), ("lt", wanted.until)]
            .map(|(operator, at)| (operator, at.map(|at| json!(at)))),
    );
    Ok(all_of([
        ("organisation", wanted.organisation.map(|one| json!({"eq": one}))),
        ("eshop", wanted.eshop.map(|one| json!({"eq": one}))),
        ("kind", wanted.kind.map(|kind| json!({"eq": kind.as_str()}))),
        ("state", wanted.state.map(|state| json!({"eq": state.as_str()}))),
        ("error", wanted.error.as_ref().map(|text| json!({"like": text}))),
        ("id", ids.map(|ids| json!({"in": ids}))),
        ("createdAt", Some(accepted)),
    ]))
}

/// The newest jobs that changed an entity, as the audit knows them.
async fn jobs_of(db: &Database, entity: Uuid) -> Result<Vec<JobId>, Problem> {
    let found = sqlx::query_scalar!(
        r#"SELECT a.job_id AS "id!: JobId" FROM audit a
           WHERE a.entity_id = $1 AND a.job_id IS NOT NULL ORDER BY a.id DESC LIMIT $2"#,
        entity,
        BY_ENTITY,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
