//! The syncs of each e-shop: the last run, its result, and when the next scheduled one is due.

use chrono::{DateTime, Utc};

use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

use super::kind::JobState;
use crate::list::criteria::containing;

/// E-shops a page.
pub const PAGE: usize = 50;

/// Jobs of an e-shop that are looked at: the newest.
const LOOKED_AT: i64 = 300;

/// The last sync of one kind, pulled or pushed, and the next.
#[derive(Clone, Debug)]
pub struct Run {
    /// The e-shop.
    pub eshop: EshopId,
    /// Its name.
    pub name: String,
    /// Name of its organisation.
    pub organisation: String,
    /// Whether it is active.
    pub active: bool,
    /// What partner it is connected with, where that is set.
    pub integration: Option<String>,
    /// Kind of the job; nothing where there was no sync lately, and none is due.
    pub kind: Option<String>,
    /// Whether it calls the partner; otherwise its rows were pushed.
    pub calls_partner: bool,
    /// Why it failed; of one that calls the partner, until that kind goes right again.
    pub error: Option<String>,
    /// The job.
    pub job: Option<JobId>,
    /// Its state.
    pub state: Option<JobState>,
    /// Items.
    pub total: Option<i32>,
    /// Items executed.
    pub done: Option<i32>,
    /// Created or altered.
    pub changed: Option<i32>,
    /// Found as they should be.
    pub unchanged: Option<i32>,
    /// Refused.
    pub failed: Option<i32>,
    /// Withheld by its guard.
    pub withheld: Option<i32>,
    /// When it was accepted.
    pub created_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// When the clock starts the next one.
    pub next_run_at: Option<DateTime<Utc>>,
}

/// Which e-shops are wanted.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// With this in their name.
    pub named: Option<String>,
    /// This one alone.
    pub only: Option<EshopId>,
    /// Those whose partner fails.
    pub failing: bool,
    /// Behind this one in the order.
    pub after: Option<EshopId>,
    /// By name alone, and not those whose partner fails first.
    pub by_name: bool,
    /// E-shops a page; nothing: [`PAGE`].
    pub size: Option<usize>,
}

/// E-shops whose partner fails that are counted; beyond that, it is "many".
pub const COUNTED: i64 = 1_000;

/// How many e-shops of a scope have a partner that fails.
pub async fn failing(db: &Database, scope: &Scope) -> Result<i64, Problem> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               SELECT FROM integration_setting g JOIN eshop s ON s.id = g.eshop_id
               WHERE g.error IS NOT NULL AND in_scope($1, s.organisation_id) AND in_eshop($2, s.id) LIMIT $3) AS f"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(count)
}

/// The last syncs, among the newest jobs, of the e-shops of a page: those whose partner fails first, then by name; for each kind of an
/// e-shop a row of what it pulls and one of what is pushed, since a push says nothing of the partner. One e-shop more than a page has
/// says that there are more.
pub async fn page(db: &Database, scope: &Scope, wanted: &Filter) -> Result<Vec<Run>, Problem> {
    let pattern = wanted.named.as_deref().map(containing);
    let found = sqlx::query_as!(
        Run,
        r#"WITH failing AS MATERIALIZED (
               SELECT eshop_id FROM integration_setting WHERE error IS NOT NULL
           ), shown AS MATERIALIZED (
               SELECT s.id, s.name, s.organisation_id, s.active, s.integration_type,
                      $9 OR s.id NOT IN (SELECT eshop_id FROM failing) AS comes_later
               FROM eshop s
               WHERE in_scope($1, s.organisation_id) AND in_eshop($2, s.id)
                 AND ($3::text IS NULL OR s.name ILIKE $3) AND ($7::uuid IS NULL OR s.id = $7)
                 AND (NOT $8 OR s.id IN (SELECT eshop_id FROM failing))
                 AND ($4::uuid IS NULL OR ($9 OR s.id NOT IN (SELECT eshop_id FROM failing), s.name, s.id)
                                          > ($9 OR $4 NOT IN (SELECT eshop_id FROM failing),
                                             (SELECT name FROM eshop WHERE id = $4), $4))
               ORDER BY comes_later, s.name, s.id LIMIT $5
           )
           SELECT shown.id AS "eshop!", shown.name AS "name!", o.name AS "organisation!", shown.active AS "active!",
                  coalesce(g.integration_type, shown.integration_type) AS integration, run.error AS "error?",
                  run.kind AS "kind?", coalesce(run.calls_partner, false) AS "calls_partner!", run.id AS "job?: JobId", run.state AS "state?: JobState", run.total AS "total?",
                  run.done AS "done?", run.changed AS "changed?", run.unchanged AS "unchanged?", run.failed AS "failed?", run.withheld AS "withheld?",
                  run.created_at AS "created_at?", run.finished_at AS "finished_at?", run.next_run_at AS "next_run_at?"
           FROM shown
           JOIN organisation o ON o.id = shown.organisation_id
           LEFT JOIN integration_setting g ON g.eshop_id = shown.id
           LEFT JOIN LATERAL (
               SELECT k.kind, w.calls_partner, last.id, last.state, last.total, last.done, last.changed, last.unchanged, last.failed, last.withheld,
                      last.created_at, last.finished_at, c.next_run_at,
                      CASE WHEN w.calls_partner AND g.error_kind = k.kind THEN g.error ELSE last.error END AS error
               FROM (VALUES ('product.sync'), ('stock.sync'), ('stock.send'), ('expedition.sync')) AS k (kind)
               CROSS JOIN (VALUES (true), (false)) AS w (calls_partner)
               LEFT JOIN (
                   SELECT DISTINCT ON (j.kind, j.source IS NULL) j.* FROM (
                       -- the order of the index of the e-shop alone
                       SELECT * FROM job WHERE eshop_id BETWEEN shown.id AND shown.id
                       ORDER BY eshop_id DESC, created_at DESC, id DESC LIMIT $6
                   ) AS j
                   WHERE j.kind IN ('product.sync', 'stock.sync', 'stock.send', 'expedition.sync')
                   ORDER BY j.kind, j.source IS NULL, j.created_at DESC
               ) last ON last.kind = k.kind AND (last.source IS NOT NULL) = w.calls_partner
               LEFT JOIN partner_clock c ON c.setting_id = g.id AND c.kind = k.kind AND w.calls_partner
               WHERE last.id IS NOT NULL OR c.next_run_at IS NOT NULL OR (w.calls_partner AND g.error_kind = k.kind)
           ) run ON true
           ORDER BY shown.comes_later, shown.name, shown.id, run.kind, run.calls_partner DESC"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        pattern.as_deref(),
        wanted.after as Option<EshopId>,
        i64::try_from(wanted.size.unwrap_or(PAGE) + 1).map_err(Problem::internal)?,
        LOOKED_AT,
        wanted.only as Option<EshopId>,
        wanted.failing,
        wanted.by_name,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
