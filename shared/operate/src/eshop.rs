//! One e-shop: what arrives from its partner, what its webhooks are sent, and when something came last.

use chrono::{DateTime, Utc};

use longshore_domain::job::kind::JobState;
use longshore_domain::webhook::delivery::DeliveryState;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{DeliveryId, EshopId, JobId, OrganisationId, SettingId};
use longshore_kernel::problem::Problem;

/// Syncs of a kind that are looked at: the newest.
const RUNS: i64 = 200;
/// Jobs of the e-shop that are looked at: the newest.
const LOOKED_AT: i64 = 1_000;
/// Waiting deliveries of a webhook among which the newest is looked for: those that are due last.
const WAITING: i64 = 100;

/// An e-shop.
#[derive(Clone, Debug)]
pub struct Eshop {
    /// Its id.
    pub id: EshopId,
    /// Its name.
    pub name: String,
    /// Whether it is active.
    pub active: bool,
    /// Its organisation.
    pub organisation_id: OrganisationId,
    /// Name of that.
    pub organisation: String,
    /// Name of the warehouse that it is served from, unless an order says otherwise.
    pub default_warehouse: Option<String>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
}

/// How it is connected with its partner.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its id.
    pub id: SettingId,
    /// The partner.
    pub integration: String,
    /// Whether the partner is called.
    pub active: bool,
    /// Where its system is.
    pub base_url: Option<String>,
    /// Minutes between syncs of products; absent where the clock starts none.
    pub product_minutes: Option<i32>,
    /// The same for stocks.
    pub stock_minutes: Option<i32>,
    /// When the next sync of products is due.
    pub next_product_sync: Option<DateTime<Utc>>,
    /// When stocks are sent next.
    pub next_stock_sync: Option<DateTime<Utc>>,
    /// What went wrong last, until something goes right.
    pub error: Option<String>,
    /// When.
    pub error_at: Option<DateTime<Utc>>,
    /// In which job.
    pub error_job: Option<JobId>,
    /// When it was stored.
    pub changed_at: DateTime<Utc>,
}

/// The last event that the e-shop's webhooks were sent, or wait to be sent.
#[derive(Clone, Debug)]
pub struct Last {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Type of the event.
    pub event: String,
    /// Its state.
    pub state: DeliveryState,
    /// When the event was recorded for the webhook.
    pub at: DateTime<Utc>,
    /// When the delivery ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// A sync.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its id.
    pub id: JobId,
    /// What it does.
    pub kind: String,
    /// Its state.
    pub state: JobState,
    /// When it was accepted.
    pub created_at: DateTime<Utc>,
}

/// The e-shop of that id, if it is in the scope.
pub async fn find(db: &Database, scope: &Scope, id: EshopId) -> Result<Option<Eshop>, Problem> {
    let found = sqlx::query_as!(
        Eshop,
        r#"SELECT s.id, s.name, s.active, s.organisation_id, o.name AS organisation, w.name AS "default_warehouse?", s.created_at
           FROM eshop s JOIN organisation o ON o.id = s.organisation_id LEFT JOIN warehouse w ON w.id = s.default_warehouse_id
           WHERE s.id = $1 AND in_scope($2, s.organisation_id) AND in_eshop($3, s.id)"#,
        id.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_optional(&db.lists)
    .await?;
    Ok(found)
}

/// Its integration setting. The caller must have access to the e-shop.
pub async fn setting(db: &Database, id: EshopId) -> Result<Option<Setting>, Problem> {
    let found = sqlx::query_as!(
        Setting,
        r#"SELECT g.id, g.integration_type AS integration, g.active, g.base_url,
                  CASE WHEN g.product_sync_enabled THEN g.product_sync_interval END AS product_minutes,
                  CASE WHEN g.stock_sync_enabled THEN g.stock_sync_interval END AS stock_minutes,
                  (SELECT next_run_at FROM partner_clock c WHERE c.setting_id = g.id AND c.kind = 'product.sync') AS next_product_sync,
                  (SELECT next_run_at FROM partner_clock c WHERE c.setting_id = g.id AND c.kind = 'stock.send') AS next_stock_sync,
                  g.error, g.error_at, g.error_job AS "error_job: JobId", g.changed_at
           FROM integration_setting g WHERE g.eshop_id = $1"#,
        id.get(),
    )
    .fetch_optional(&db.lists)
    .await?;
    Ok(found)
}

/// The newest syncs of each kind, newest first, at most 200 of a kind. The caller must have access to the e-shop.
pub async fn runs(db: &Database, id: EshopId) -> Result<Vec<Run>, Problem> {
    let found = sqlx::query_as!(
        Run,
        r#"SELECT r.id AS "id!", r.kind AS "kind!", r.state AS "state!: JobState", r.created_at AS "created_at!"
           FROM (SELECT j.*, row_number() OVER (PARTITION BY j.kind ORDER BY j.created_at DESC) AS place
                 FROM (SELECT id, kind, state, created_at FROM job WHERE eshop_id = ANY (ARRAY[$1::uuid])
                       ORDER BY eshop_id DESC, created_at DESC, id DESC LIMIT (SELECT $2::bigint)) AS j
                 WHERE j.kind IN ('product.sync', 'stock.sync', 'stock.send', 'expedition.sync')) AS r
           WHERE r.place <= $3 ORDER BY r.kind, r.created_at DESC"#,
        id.get(),
        LOOKED_AT,
        RUNS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// The last event of the e-shop's webhooks, by the index of what has ended, and among the waiting deliveries of each that are
/// due last. The caller must have access to the e-shop.
pub async fn last(db: &Database, id: EshopId) -> Result<Option<Last>, Problem> {
    let found = sqlx::query_as!(
        Last,
        r#"SELECT d.id AS "delivery!", d.event AS "event!", d.state AS "state!: DeliveryState", d.created_at AS "at!", d.finished_at
           FROM ((SELECT id, event_type AS event, state, created_at, finished_at FROM delivery_history
                  WHERE eshop_id = ANY (ARRAY[$1::uuid]) ORDER BY eshop_id DESC, id DESC LIMIT 1)
                 UNION ALL
                 (SELECT d.id, (SELECT type FROM event v WHERE v.id = d.event_id), 'pending', d.created_at, NULL
                  FROM webhook w CROSS JOIN LATERAL (
                      SELECT * FROM delivery d WHERE d.webhook_id = w.id ORDER BY d.next_attempt_at DESC, d.id DESC LIMIT $2
                  ) AS d WHERE w.eshop_id = $1 ORDER BY d.id DESC LIMIT 1)) AS d
           WHERE d.event IS NOT NULL ORDER BY d.id DESC LIMIT 1"#,
        id.get(),
        WAITING,
    )
    .fetch_optional(&db.main)
    .await?;
    Ok(found)
}

/// The last delivery that succeeded, among the newest that ended. The caller must have access to the e-shop.
pub async fn last_success(db: &Database, id: EshopId) -> Result<Option<DateTime<Utc>>, Problem> {
    let found = sqlx::query_scalar!(
        r#"SELECT max(finished_at) FROM (
               SELECT finished_at, state FROM delivery_history
               WHERE eshop_id = ANY (ARRAY[$1::uuid]) ORDER BY eshop_id DESC, id DESC LIMIT (SELECT $2::bigint)
           ) AS newest WHERE state = 'delivered'"#,
        id.get(),
        LOOKED_AT,
    )
    .fetch_one(&db.main)
    .await?;
    Ok(found)
}
