//! The syncs that the clock starts: when each is due, and what the last one came to.

use chrono::{DateTime, Utc};

use longshore_domain::job::kind::JobState;
use longshore_domain::list::criteria::containing;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId, SettingId};
use longshore_kernel::problem::Problem;

/// Schedules a page.
pub const PAGE: usize = 50;
/// Jobs of an e-shop among which the last one of a schedule is looked for: the newest.
const LOOKED_AT: i64 = 200;

/// Where a page ends, in the order of what is due next.
pub type Cursor = longshore_kernel::cursor::Cursor<SettingId>;

/// A schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The integration setting that has it.
    pub setting: SettingId,
    /// Kind of the job that it starts.
    pub kind: String,
    /// The e-shop.
    pub eshop_id: EshopId,
    /// Its name.
    pub eshop: String,
    /// Name of its organisation.
    pub organisation: String,
    /// The partner.
    pub integration: String,
    /// Whether the clock starts it: the setting and the e-shop are active.
    pub runs: bool,
    /// Whether the setting is active.
    pub active: bool,
    /// Minutes between two starts, up to a twentieth more or less.
    pub minutes: i32,
    /// When the next one is due; absent while the setting is paused.
    pub next_run_at: Option<DateTime<Utc>>,
    /// What the list is sorted by: those without a next run come last.
    pub at: DateTime<Utc>,
    /// The last job of the kind.
    pub last: Option<JobId>,
    /// Its state.
    pub state: Option<JobState>,
    /// Its items.
    pub total: Option<i32>,
    /// Items that it refused.
    pub failed: Option<i32>,
    /// Withheld by its guard.
    pub withheld: Option<i32>,
    /// When it was accepted.
    pub last_at: Option<DateTime<Utc>>,
    /// What went wrong with the partner last, until something goes right.
    pub error: Option<String>,
}

/// Which schedules are wanted.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// With this in the name of the e-shop or the organisation.
    pub text: Option<String>,
    /// Those that run, or those that are paused.
    pub runs: Option<bool>,
    /// Behind this cursor.
    pub after: Option<Cursor>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The schedules, what is due first in front.
    pub schedules: Vec<Schedule>,
    /// Where the next page begins, if there are more.
    pub next: Option<Cursor>,
}

/// A page of schedules.
pub async fn page(db: &Database, scope: &Scope, wanted: &Filter) -> Result<Page, Problem> {
    let (at, id) = wanted.after.map(|cursor| (cursor.at, cursor.id)).unzip();
    // both schedules of a setting may be due at the same moment, and are not torn apart
    let limit = PAGE + 2;
    let mut found = sqlx::query_as!(
        Schedule,
        r#"SELECT c.setting_id AS "setting!: SettingId", c.kind AS "kind!", c.eshop_id AS "eshop_id!: EshopId", c.eshop AS "eshop!",
                  c.organisation AS "organisation!", c.integration_type AS "integration!", c.runs AS "runs!", c.active AS "active!",
                  c.minutes AS "minutes!", c.next_run_at AS "next_run_at?", c.at AS "at!", j.id AS "last?: JobId", j.state AS "state?: JobState",
                  j.total AS "total?", j.failed AS "failed?", j.withheld AS "withheld?", j.created_at AS "last_at?", c.error
           FROM (
               SELECT * FROM (
                   SELECT g.id AS setting_id, k.kind, k.minutes, p.next_run_at, coalesce(p.next_run_at, '9999-12-31') AS at, g.eshop_id,
                          s.name AS eshop, o.name AS organisation, g.integration_type, g.active AND s.active AS runs, g.active, g.error
                   FROM integration_setting g
                   CROSS JOIN LATERAL (VALUES ('product.sync', g.product_sync_interval, g.product_sync_enabled),
                                              ('stock.send', g.stock_sync_interval, g.stock_sync_enabled)) AS k (kind, minutes, enabled)
                   JOIN eshop s ON s.id = g.eshop_id
                   JOIN organisation o ON o.id = g.organisation_id
                   LEFT JOIN partner_clock p ON p.setting_id = g.id AND p.kind = k.kind
                   WHERE k.enabled AND in_scope($1, g.organisation_id) AND in_eshop($2, g.eshop_id)
                     AND ($3::text IS NULL OR s.name ILIKE $3 OR o.name ILIKE $3)
                     AND ($4::boolean IS NULL OR (g.active AND s.active) = $4)
               ) AS c
               WHERE $5::timestamptz IS NULL OR (c.at, c.setting_id) > ($5, $6)
               ORDER BY c.at, c.setting_id, c.kind LIMIT $7
           ) AS c
           LEFT JOIN LATERAL (
               SELECT * FROM (
                   SELECT id, kind, state, total, failed, withheld, created_at FROM job
                   WHERE eshop_id = c.eshop_id ORDER BY created_at DESC LIMIT $8
               ) AS newest WHERE newest.kind = c.kind ORDER BY newest.created_at DESC LIMIT 1
           ) AS j ON true
           ORDER BY c.at, c.setting_id, c.kind"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        wanted.text.as_deref().map(containing),
        wanted.runs,
        at,
        id as Option<SettingId>,
        i64::try_from(limit).map_err(Problem::internal)?,
        LOOKED_AT,
    )
    .fetch_all(&db.lists)
    .await?;
    let cursor = |schedule: &Schedule| Cursor { at: schedule.at, id: schedule.setting };
    if found.len() <= PAGE {
        return Ok(Page { schedules: found, next: None });
    }
    let is_torn = cursor(&found[PAGE - 1]) == cursor(&found[PAGE]);
    found.truncate(if is_torn { PAGE + 1 } else { PAGE });
    let next = found.last().map(cursor);
    Ok(Page { schedules: found, next })
}
