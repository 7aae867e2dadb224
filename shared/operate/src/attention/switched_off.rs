//! What people switched off (`docs/reference/attention.md#switched-off`): nothing is wrong with it, and nobody else sees that it does
//! nothing. It is listed apart from the lines, is counted nowhere, and cannot be silenced. A paused queue has a line instead.

use chrono::{DateTime, Utc};
use longshore_domain::attention::{Address, Page};
use longshore_kernel::access::Scope;
use longshore_kernel::answer::moment;
use longshore_kernel::database::Database;
use longshore_kernel::figure::AtLeast;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Problem;
use longshore_kernel::words;
use serde_json::{Value, json};
use uuid::Uuid;

/// Things of a kind that are counted.
const COUNTED: i64 = 1_000;
/// Things of a kind that are named: those that were switched off last.
const NAMED: i64 = 20;
/// Waiting deliveries of a webhook that are counted.
const WAITING: i64 = 1_000;

words! {
    /// What can be switched off.
    pub enum What ("kind of what is switched off") {
        /// An integration setting of an e-shop that is not active.
        Integration = "integration",
        /// The setting of a warehouse system that is not active, or whose hand-over is paused.
        Warehouse = "warehouse",
        /// A deactivated webhook; one that was disabled after failures has a line.
        Webhook = "webhook",
    }
}

impl What {
    /// What lists them.
    #[must_use]
    pub fn page(self) -> Page {
        match self {
            Self::Integration => Page::PausedIntegrations,
            Self::Warehouse => Page::Warehouses,
            Self::Webhook => Page::Webhooks(Some("inactive")),
        }
    }
}

/// What of a kind is switched off.
#[derive(Clone, Debug)]
pub struct SwitchedOff {
    /// The kind.
    pub what: What,
    /// How much of it, up to a bound.
    pub count: AtLeast,
    /// What was switched off last, first.
    pub things: Vec<Thing>,
}

/// A thing that is switched off.
#[derive(Clone, Debug)]
pub struct Thing {
    /// What it calls itself, and whose it is.
    pub name: String,
    /// What shows it.
    pub page: Page,
    /// Its organisation.
    pub organisation: Option<OrganisationId>,
    /// Deliveries that wait for it.
    pub waiting: Option<AtLeast>,
    /// Who switched it off; absent where the audit does not go back so far.
    pub by: Option<String>,
    /// When.
    pub at: Option<DateTime<Utc>>,
}

impl SwitchedOff {
    fn new(what: What, count: i64, things: Vec<Thing>) -> Option<Self> {
        (count > 0).then_some(Self { what, count: AtLeast::up_to(count, COUNTED), things })
    }

    /// As `GET /api/attention` shows it.
    pub(super) fn fields(&self, address: Address) -> Value {
        let things: Vec<Value> = self.things.iter().map(|thing| thing.fields(address)).collect();
        json!({
            "kind": self.what, "count": self.count.count, "atLeast": self.count.is_more, "page": address(&self.what.page()), "things": things,
        })
    }
}

impl Thing {
    fn fields(&self, address: Address) -> Value {
        let waiting = self.waiting.map(|waiting| json!({"count": waiting.count, "atLeast": waiting.is_more}));
        json!({
            "name": self.name, "page": address(&self.page), "organisation": self.organisation, "waiting": waiting, "by": self.by,
            "at": self.at.map(moment),
        })
    }
}

/// What of a scope people switched off.
pub(super) async fn things(db: &Database, scope: &Scope) -> Result<Vec<SwitchedOff>, Problem> {
    let (integrations, warehouses, webhooks) =
        tokio::try_join!(integrations(db, scope), warehouses(db, scope), webhooks(db, scope))?;
    let all = [
        of_rows(What::Integration, "eshop", integrations),
        of_rows(What::Warehouse, "wms", warehouses),
        of_rows(What::Webhook, "webhook", webhooks),
    ];
    Ok(all.into_iter().flatten().collect())
}

/// A row that is switched off, with how many there are.
#[derive(Debug)]
struct Row {
    of: Uuid,
    name: String,
    organisation_id: OrganisationId,
    waiting: Option<i64>,
    by: Option<String>,
    at: Option<DateTime<Utc>>,
    count: i64,
}

fn of_rows(what: What, record: &'static str, rows: Vec<Row>) -> Option<SwitchedOff> {
    let count = rows.first().map_or(0, |row| row.count);
    let things = rows.into_iter().map(|row| Thing {
        page: Page::Record(record, row.of),
        name: row.name,
        organisation: Some(row.organisation_id),
        waiting: row.waiting.map(|waiting| AtLeast::up_to(waiting, WAITING)),
        by: row.by,
        at: row.at,
    });
    SwitchedOff::new(what, count, things.collect())
}

/// Integration settings that are not active. There is one an e-shop at most, and lists read all of them.
async fn integrations(db: &Database, scope: &Scope) -> Result<Vec<Row>, Problem> {
    let found = sqlx::query_as!(
        Row,
        r#"WITH off AS MATERIALIZED (
               SELECT id, eshop_id, organisation_id, integration_type, changed_at FROM integration_setting
               WHERE NOT active AND in_scope($1, organisation_id) AND in_eshop($2, eshop_id)
               ORDER BY changed_at DESC, id DESC LIMIT $3
           ), named AS (
               SELECT * FROM off ORDER BY changed_at DESC, id DESC LIMIT $4
           )
           SELECT n.eshop_id AS "of!", n.integration_type || ' of ' || s.name AS "name!", n.organisation_id AS "organisation_id!: OrganisationId",
                  NULL::bigint AS waiting, a.actor_name AS "by?", a.at AS "at?", (SELECT count(*) FROM off) AS "count!"
           FROM named n JOIN eshop s ON s.id = ANY (ARRAY[n.eshop_id])
           LEFT JOIN LATERAL (
               SELECT actor_name, at FROM audit
               WHERE entity_id = ANY (ARRAY[n.id]) AND changes -> 'active' -> 1 = 'false'
               ORDER BY entity_id DESC, id DESC LIMIT 1
           ) AS a ON true
           ORDER BY coalesce(a.at, n.changed_at) DESC, n.eshop_id"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
        NAMED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// Settings of warehouse systems that are not active, or whose hand-over is paused. Nothing for a caller that is bound to an e-shop:
/// a wms belongs to no e-shop.
async fn warehouses(db: &Database, scope: &Scope) -> Result<Vec<Row>, Problem> {
    let found = sqlx::query_as!(
        Row,
        r#"WITH off AS MATERIALIZED (
               SELECT wms_id, organisation_id, changed_at FROM wms_setting
               WHERE (paused OR NOT active) AND in_scope($1, organisation_id) AND $2::uuid IS NULL
               ORDER BY changed_at DESC, wms_id DESC LIMIT $3
           ), named AS (
               SELECT * FROM off ORDER BY changed_at DESC, wms_id DESC LIMIT $4
           )
           SELECT n.wms_id AS "of!", m.name || ' (' || o.name || ')' AS "name!", n.organisation_id AS "organisation_id!: OrganisationId",
                  NULL::bigint AS waiting, a.actor_name AS "by?", a.at AS "at?", (SELECT count(*) FROM off) AS "count!"
           FROM named n JOIN wms m ON m.id = n.wms_id JOIN organisation o ON o.id = n.organisation_id
           LEFT JOIN LATERAL (
               SELECT actor_name, at FROM audit
               WHERE entity_id = ANY (ARRAY[n.wms_id]) AND (changes -> 'active' -> 1 = 'false' OR changes -> 'paused' -> 1 = 'true')
               ORDER BY entity_id DESC, id DESC LIMIT 1
           ) AS a ON true
           ORDER BY coalesce(a.at, n.changed_at) DESC, n.wms_id"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
        NAMED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// Webhooks that somebody deactivated, by the index on these, with the deliveries that wait for them.
async fn webhooks(db: &Database, scope: &Scope) -> Result<Vec<Row>, Problem> {
    let found = sqlx::query_as!(
        Row,
        r#"WITH off AS MATERIALIZED (
               SELECT id, source_id, organisation_id, destination, changed_at FROM webhook
               WHERE NOT active AND disabled_at IS NULL AND in_scope($1, organisation_id) AND in_eshop($2, eshop_id)
               ORDER BY source_id, changed_at, id LIMIT (SELECT $3::bigint)
           ), named AS (
               SELECT * FROM off ORDER BY changed_at DESC, id DESC LIMIT $4
           )
           SELECT n.id AS "of!", n.destination || ' (' || s.name || ')' AS "name!", n.organisation_id AS "organisation_id!: OrganisationId",
                  (SELECT count(*) FROM (SELECT FROM delivery d WHERE d.webhook_id = ANY (ARRAY[n.id])
                                         ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT $5) AS d) AS waiting,
                  a.actor_name AS "by?", a.at AS "at?", (SELECT count(*) FROM off) AS "count!"
           FROM named n JOIN webhook_source s ON s.id = ANY (ARRAY[n.source_id])
           LEFT JOIN LATERAL (
               SELECT actor_name, at FROM audit
               WHERE entity_id = ANY (ARRAY[n.id]) AND changes -> 'active' -> 1 = 'false'
               ORDER BY entity_id DESC, id DESC LIMIT 1
           ) AS a ON true
           ORDER BY coalesce(a.at, n.changed_at) DESC, n.id"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
        NAMED,
        WAITING,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
