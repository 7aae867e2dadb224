//! Integration settings (`docs/reference/syncs.md#integration-settings`): how the worker reaches the system of an e-shop's
//! partner, and what it synchronises. An e-shop has at most one, and its `integrationType` follows it.
//!
//! Credentials are sealed at rest and shown masked; a masked member that is sent back keeps the stored value. A stored setting
//! that cannot be read is reported as such, until it is stored again or deleted.

pub mod body;
pub mod store;
pub mod trial;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::types::Json;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

pub use self::body::{Integration, Inventory, Mapping, SettingFields, StockSync, Sync};
use super::baselinker::TokenHash;
use super::block;
use crate::job::guard::Guard;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::authentication::Authentication;
use longshore_kernel::crypto::Vault;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId, SettingId};
use longshore_kernel::problem::{CORRUPTED_DATA, Problem};
use longshore_kernel::resealing::SealedTable;
use longshore_kernel::sealed_table;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Its entity type, in the audit and on tombstones.
const ENTITY: &str = "integration_setting";

/// An integration setting.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Identifier.
    pub id: SettingId,
    /// E-shop that it belongs to.
    pub eshop: EshopId,
    /// Whose it is.
    pub organisation: OrganisationId,
    /// What it is set to.
    pub wanted: SettingFields,
    /// The credentials for the partner.
    pub credentials: Authentication,
    /// The state of its syncs, which is neither stored with it nor versioned.
    pub standing: SyncStatus,
    /// Creation time.
    pub created_at: DateTime<Utc>,
    /// Last change time: the version of the record.
    pub changed_at: DateTime<Utc>,
    /// Its version: one higher with each change.
    pub version: i64,
}

/// The state of the syncs of a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncStatus {
    /// When products are due by the clock; none while they are not, or the e-shop is not active.
    pub next_product_sync: Option<DateTime<Utc>>,
    /// The same for stocks.
    pub next_stock_sync: Option<DateTime<Utc>>,
    /// Until when the partner blocks its token.
    pub blocked_until: Option<DateTime<Utc>>,
    /// The last error, until a success or until the setting is stored again.
    pub last_error: Option<LastError>,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// When.
    pub at: DateTime<Utc>,
    /// Kind of the job.
    pub kind: String,
    /// The job.
    pub job: JobId,
    /// What, for an operator.
    pub message: String,
}

/// How it is shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'s> {
    id: SettingId,
    eshop: EshopId,
    organisation: OrganisationId,
    #[serde(flatten)]
    wanted: &'s SettingFields,
    credentials: Value,
    next_product_sync: Option<String>,
    next_stock_sync: Option<String>,
    blocked_until: Option<String>,
    last_error: Option<Value>,
    created_at: String,
    changed_at: String,
    version: i64,
}

/// A row, its credentials still sealed.
struct Row {
    id: SettingId,
    eshop_id: EshopId,
    organisation_id: OrganisationId,
    integration_type: String,
    active: bool,
    credentials: Vec<u8>,
    base_url: Option<String>,
    inventories: Vec<String>,
    product_sync_enabled: bool,
    product_sync_interval: i32,
    stock_sync_enabled: bool,
    stock_sync_interval: i32,
    stock_reserve: i32,
    guard: Option<Json<Guard>>,
    warehouses: Json<Vec<Mapping>>,
    next_product_sync: Option<DateTime<Utc>>,
    next_stock_sync: Option<DateTime<Utc>>,
    last_error: Option<Json<LastError>>,
    created_at: DateTime<Utc>,
    changed_at: DateTime<Utc>,
    version: i64,
}

/// The place of the credentials in the vault.
fn place(id: SettingId) -> String {
    format!("integration_setting.credentials:{id}")
}

/// The credentials of settings.
pub const SEALED: SealedTable = sealed_table!(
    "integration_setting",
    "id",
    ["credentials" => place],
    |id, error| tracing::warn!(integration_setting.id = %id, %error, "stored credentials cannot be read")
);

fn location(eshop: EshopId) -> String {
    format!("/api/partner-integration/eshop-setting/{eshop}")
}

fn open(vault: &Vault, id: SettingId, sealed: &[u8]) -> Result<Authentication, Problem> {
    let corrupted =
        || Problem::new(&CORRUPTED_DATA, "the stored credentials of the integration setting cannot be read");
    let opened = vault.open(&place(id), sealed).map_err(|_| corrupted())?;
    serde_json::from_slice(&opened).map_err(|_| corrupted())
}

impl Row {
    fn read(self, vault: &Vault) -> Result<Setting, Problem> {
        let credentials = open(vault, self.id, &self.credentials)?;
        let integration = Integration::parse(&self.integration_type).ok_or_else(|| {
            Problem::new(&CORRUPTED_DATA, "the stored integration setting has an unknown type")
        })?;
        Ok(Setting {
            id: self.id,
            eshop: self.eshop_id,
            organisation: self.organisation_id,
            wanted: SettingFields {
                integration,
                active: self.active,
                base_url: self.base_url,
                inventories: self.inventories.into_iter().map(Into::into).collect(),
                warehouses: self.warehouses.0,
                product_sync: Sync {
                    enabled: self.product_sync_enabled,
                    interval_minutes: self.product_sync_interval,
                },
                stock_sync: StockSync {
                    enabled: self.stock_sync_enabled,
                    interval_minutes: self.stock_sync_interval,
                    reserve: self.stock_reserve,
                },
                guard: self.guard.map(|guard| guard.0),
            },
            credentials,
            standing: SyncStatus {
                next_product_sync: self.next_product_sync,
                next_stock_sync: self.next_stock_sync,
                blocked_until: None,
                last_error: self.last_error.map(|error| error.0),
            },
            created_at: self.created_at,
            changed_at: self.changed_at,
            version: self.version,
        })
    }
}

async fn row(executor: impl PgExecutor<'_>, eshop: EshopId) -> Result<Option<Row>, sqlx::Error> {
    sqlx::query_as!(
        Row,
        r#"SELECT id, eshop_id, organisation_id, integration_type, active, credentials, base_url, inventories,
                  product_sync_enabled, product_sync_interval, stock_sync_enabled, stock_sync_interval, stock_reserve,
                  guard AS "guard: Json<Guard>",
                  (SELECT coalesce(jsonb_agg(jsonb_build_object('warehouseId', partner_warehouse,
                       'warehouse', warehouse_id, 'wms', wms_id) ORDER BY position), '[]')
                   FROM integration_warehouse WHERE setting_id = s.id) AS "warehouses!: Json<Vec<Mapping>>",
                  (SELECT c.next_run_at FROM partner_clock c JOIN eshop e ON e.id = s.eshop_id AND e.active
                   WHERE c.setting_id = s.id AND c.kind = 'product.sync') AS next_product_sync,
                  (SELECT c.next_run_at FROM partner_clock c JOIN eshop e ON e.id = s.eshop_id AND e.active
                   WHERE c.setting_id = s.id AND c.kind LIKE 'stock.%') AS next_stock_sync,
                  (SELECT jsonb_build_object('at', s.error_at, 'kind', s.error_kind, 'job', s.error_job,
                       'message', s.error) WHERE s.error IS NOT NULL) AS "last_error: Json<LastError>",
                  created_at, changed_at, version
           FROM integration_setting s WHERE eshop_id = $1"#,
        eshop.get(),
    )
    .fetch_optional(executor)
    .await
}

/// The setting of an e-shop without a scope, for the worker.
pub async fn of_eshop(services: &Services, eshop: EshopId) -> Result<Option<Setting>, Problem> {
    row(&services.db.main, eshop).await?.map(|row| row.read(&services.vault)).transpose()
}

/// Reads a setting (`GET /api/partner-integration/eshop-setting/{eshopId}`).
pub async fn find(services: &Services, scope: &Scope, eshop: EshopId) -> Result<Answer, Problem> {
    let db = &services.db.main;
    of_scope(&mut *db.acquire().await?, scope, eshop, false).await?;
    match of_eshop(services, eshop).await? {
        Some(setting) => setting.with_block(db).await?.answer(),
        None => Err(tombstone::missing(db, scope, ENTITY, eshop).await),
    }
}

/// Whose e-shop it is.
struct Owner {
    organisation: OrganisationId,
}

/// An e-shop of the scope; locked where its setting is about to change.
async fn of_scope(
    connection: &mut PgConnection,
    scope: &Scope,
    eshop: EshopId,
    lock: bool,
) -> Result<Owner, Problem> {
    let found = sqlx::query_as!(
        Owner,
        "SELECT organisation_id AS organisation FROM eshop
         WHERE id = $3 AND in_scope($1, organisation_id) AND in_eshop($2, id)",
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        eshop.get(),
    )
    .fetch_optional(&mut *connection)
    .await?
    .ok_or_else(|| Problem::not_found("e-shop"))?;
    if lock {
        sqlx::query!("SELECT FROM eshop WHERE id = $1 FOR NO KEY UPDATE", eshop.get())
            .execute(connection)
            .await?;
    }
    Ok(found)
}

impl Setting {
    /// With the block of its token, where there is one.
    async fn with_block(mut self, executor: impl PgExecutor<'_>) -> Result<Self, Problem> {
        if let (Integration::Baselinker, Authentication::Bearer { token }) =
            (self.wanted.integration, &self.credentials)
        {
            self.standing.blocked_until =
                block::find(executor, TokenHash::of(token)).await?.map(|block| block.until);
        }
        Ok(self)
    }

    fn answer(&self) -> Result<Answer, Problem> {
        let moment = |at: DateTime<Utc>| at.format("%Y-%m-%dT%H:%M:%S%.6f%:z").to_string();
        let shown = Shown {
            id: self.id,
            eshop: self.eshop,
            organisation: self.organisation,
            wanted: &self.wanted,
            credentials: self.wanted.integration.masked(&self.credentials),
            next_product_sync: self.standing.next_product_sync.map(moment),
            next_stock_sync: self.standing.next_stock_sync.map(moment),
            blocked_until: self.standing.blocked_until.map(moment),
            last_error: self.standing.last_error.as_ref().map(|error| {
                json!({"at": moment(error.at), "kind": error.kind, "job": error.job, "message": error.message})
            }),
            created_at: moment(self.created_at),
            changed_at: moment(self.changed_at),
            version: self.version,
        };
        let body = serde_json::to_string(&shown).map_err(Problem::internal)?;
        Ok(Answer::updated(location(self.eshop), self.version, body))
    }
}

/// Which of our warehouses, and which wms in it, a name of a warehouse means for an e-shop: the partner's, as its setting
/// maps it, or our own id.
#[derive(Debug)]
pub struct Located {
    /// Physical warehouse.
    pub warehouse: Uuid,
    /// The wms that the setting maps, or the warehouse's default one.
    pub wms: Option<Uuid>,
}

/// Finds it. The partner's name comes first; of several mappings of one warehouse, the first counts.
pub async fn locate(
    services: &Services,
    organisation: OrganisationId,
    eshop: EshopId,
    name: &str,
    own: Option<Uuid>,
) -> Result<Option<Located>, sqlx::Error> {
    sqlx::query_as!(
        Located,
        r#"SELECT w.id AS "warehouse!", coalesce(m.wms_id, w.default_wms_id) AS wms
           FROM (SELECT i.warehouse_id, i.wms_id, i.partner_warehouse, i.position
                 FROM integration_setting s JOIN integration_warehouse i ON i.setting_id = s.id
                 WHERE s.eshop_id = $2 AND (i.partner_warehouse = $3 OR i.warehouse_id = $4)
                 UNION ALL SELECT $4, NULL, NULL, NULL) AS m
           JOIN warehouse w ON w.id = m.warehouse_id AND w.organisation_id = $1
           ORDER BY (m.partner_warehouse = $3) DESC NULLS LAST, m.position NULLS LAST
           LIMIT 1"#,
        organisation.get(),
        eshop.get(),
        name,
        own as Option<Uuid>,
    )
    .fetch_optional(&services.db.main)
    .await
}
