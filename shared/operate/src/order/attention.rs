//! Orders and stocks that need attention: warehouses whose system fails or does not answer a cancel, refused orders by their
//! error, what is waited for longest, marks that stay, and stocks that the warehouse has begun to pick more pieces from than there are.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::COUNTED;
use longshore_domain::list::fields::expedition::ExpeditionStatus;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::{counted, seconds, up_to};
use longshore_kernel::ids::{EshopId, ExpeditionId, OrganisationId, WmsId};
use longshore_kernel::problem::Problem;

/// Groups, and stocks, that are shown of each kind.
const SHOWN: i64 = 20;
/// A mark that is older than this, in seconds, needs attention: the allocator looks several times a second.
const MARKED_SECONDS: f64 = 60.0;

/// Orders that wait this long for their warehouse need attention, in seconds.
const BEHIND_SECONDS: f64 = 300.0;
/// A cancel that the warehouse has not answered for this long needs attention, in seconds.
pub(crate) const UNANSWERED_SECONDS: f64 = 3_600.0;

/// Orders of a warehouse that wait for its system, and unanswered cancels, that are counted.
pub const WAITING: i64 = 1_000;

/// Orders being picked, of each organisation and status, that the overview looks at; it does so every two seconds.
const GLANCED: i64 = 1_000;

/// All of it.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Warehouses whose system fails, is behind, or has not answered a cancel; the longest first.
    pub silent: Vec<Silent>,
    /// Refused orders by error, the most first, of [`COUNTED`] orders of each organisation.
    pub refused: Vec<Refused>,
    /// What orders wait for, the longest wait first, of [`COUNTED`] orders of each organisation.
    pub awaited: Vec<Awaited>,
    /// Stocks that have been marked for more than a minute, the longest first.
    pub marked: Vec<Marked>,
    /// Stocks with fewer pieces than the orders that are being picked hold.
    pub short: Vec<Short>,
}

/// A wms whose system fails, is behind, or has not answered a cancel.
#[derive(Clone, Debug)]
pub struct Silent {
    /// The wms.
    pub wms_id: WmsId,
    /// Name of the wms.
    pub wms: String,
    /// Its organisation.
    pub organisation_id: OrganisationId,
    /// Name of its organisation.
    pub organisation: String,
    /// Whether no call begins because an operator paused it.
    pub is_paused: bool,
    /// Since when its system fails; absent while it does not.
    pub failing_since: Option<DateTime<Utc>>,
    /// The last failure.
    pub error: Option<String>,
    /// Orders that wait for a call or its answer, up to [`WAITING`] of each state.
    pub waiting: i64,
    /// Since when the oldest of them waits.
    pub waiting_since: Option<DateTime<Utc>>,
    /// Cancels without an answer for over an hour, up to [`WAITING`].
    pub unanswered: i64,
    /// The oldest order of these.
    pub first_unanswered: Option<ExpeditionId>,
    /// Since when that waits for its answer.
    pub unanswered_since: Option<DateTime<Utc>>,
}

impl Silent {
    /// Since when it needs attention.
    #[must_use]
    pub fn since(&self) -> Option<DateTime<Utc>> {
        self.failing_since.or(self.waiting_since).or(self.unanswered_since)
    }

    /// What is wrong, such as `failing for 2 h, 14 orders waiting: HTTP 503`.
    #[must_use]
    pub fn in_words(&self, now: DateTime<Utc>) -> String {
        let lasted = self.failing_since.or(self.waiting_since);
        let lasted = lasted.map(|since| format!(" for {}", seconds((now - since).as_seconds_f64())));
        let lasted = lasted.unwrap_or_default();
        let what = match self.failing_since {
            Some(_) => "failing",
            None if self.is_paused => "paused, behind",
            None => "behind",
        };
        let error = self.error.as_deref().filter(|_| self.failing_since.is_some());
        let error = error.map(|error| format!(": {error}")).unwrap_or_default();
        let orders = if self.waiting == 1 { "order" } else { "orders" };
        let cancels = match self.unanswered {
            0 => String::new(),
            many => format!(", {} unanswered for over an hour", counted(many, "cancel", "cancels")),
        };
        format!("{what}{lasted}, {} {orders} waiting{cancels}{error}", up_to(self.waiting, WAITING))
    }
}

/// Refused orders with the same error.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Its code.
    pub code: String,
    /// Its place in the order, without the number of an item.
    pub path: String,
    /// What it says.
    pub message: String,
    /// Orders with it.
    pub orders: i64,
    /// The one that was refused first.
    pub first: ExpeditionId,
    /// When.
    pub since: DateTime<Utc>,
}

/// A stock that orders wait for.
#[derive(Clone, Debug)]
pub struct Awaited {
    /// SKU of the product.
    pub sku: String,
    /// Name of the warehouse.
    pub warehouse: String,
    /// Name of the wms.
    pub wms: String,
    /// Orders that wait for it.
    pub orders: i64,
    /// Pieces that they want.
    pub pieces: i64,
    /// Pieces that are announced and have not come.
    pub incoming: i32,
    /// The order that waits longest.
    pub first: ExpeditionId,
    /// Since when.
    pub since: DateTime<Utc>,
}

/// A marked stock.
#[derive(Clone, Debug)]
pub struct Marked {
    /// Its id.
    pub id: Uuid,
    /// SKU of the product.
    pub sku: String,
    /// Name of the warehouse.
    pub warehouse: String,
    /// Name of the wms.
    pub wms: String,
    /// Since when.
    pub since: DateTime<Utc>,
}

/// A stock with fewer pieces than the orders that are being picked hold.
#[derive(Clone, Debug)]
pub struct Short {
    /// Its id.
    pub id: Uuid,
    /// SKU of the product.
    pub sku: String,
    /// Name of the warehouse.
    pub warehouse: String,
    /// Name of the wms.
    pub wms: String,
    /// Pieces that are there.
    pub quantity: i32,
    /// Pieces that these orders hold.
    pub held: i64,
    /// One of them.
    pub order: ExpeditionId,
    /// Its number.
    pub order_number: String,
    /// When the stock was changed.
    pub changed_at: DateTime<Utc>,
}

/// How much of each there is, for the overview; each up to a bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Refused orders.
    pub refused: i64,
    /// When the last of these was refused.
    pub refused_at: Option<DateTime<Utc>>,
    /// Marks that are older than a minute.
    pub marked: i64,
    /// Since when the oldest is there.
    pub marked_since: Option<DateTime<Utc>>,
    /// Stocks with fewer pieces than are held.
    pub short: i64,
    /// When the last of these was changed.
    pub short_at: Option<DateTime<Utc>>,
}

/// Looks for all of it. What belongs to a place and not to an e-shop is left out for a caller that is bound to one.
pub async fn read(db: &Database, scope: &Scope) -> Result<Attention, Problem> {
    let (silent, refused, awaited, marked, short) = tokio::try_join!(
        silent(db, scope),
        refused(db, scope),
        awaited(db, scope),
        marked(db, scope, SHOWN),
        short(db, scope, COUNTED, SHOWN)
    )?;
    Ok(Attention { silent, refused, awaited, marked, short })
}

/// Counts.
pub async fn count(db: &Database, scope: &Scope) -> Result<Counts, Problem> {
    let (refused, refused_at, marked, short) = tokio::try_join!(
        count_refused(db, scope),
        last_refused(db, scope),
        marked(db, scope, COUNTED),
        short(db, scope, GLANCED, COUNTED)
    )?;
    let count = |many: usize| i64::try_from(many).unwrap_or(i64::MAX);
    Ok(Counts {
        refused,
        refused_at,
        marked: count(marked.len()),
        marked_since: marked.first().map(|stock| stock.since),
        short: count(short.len()),
        short_at: short.iter().map(|stock| stock.changed_at).max(),
    })
}

/// Looks for warehouses whose system fails, is behind, or has not answered a cancel. The first of each organisation, then the
/// next of each. Nothing for a caller that is bound to an e-shop: a wms belongs to no e-shop.
pub async fn silent(db: &Database, scope: &Scope) -> Result<Vec<Silent>, Problem> {
    let found = sqlx::query_as!(
        Silent,
        r#"WITH found AS (
               SELECT m.id AS wms_id, m.name AS wms, o.id AS organisation_id, o.name AS organisation, s.paused AS is_paused, l.failing_since,
                      l.error, w.orders AS waiting, w.since AS waiting_since, c.orders AS unanswered, c.first AS first_unanswered,
                      c.since AS unanswered_since
               FROM wms_setting s
               JOIN wms m ON m.id = s.wms_id
               JOIN organisation o ON o.id = s.organisation_id
               JOIN wms_lane l ON l.wms_id = s.wms_id
               CROSS JOIN LATERAL (
                   SELECT count(*) AS orders, min(h.handover_since) AS since FROM (
                       (SELECT handover_since FROM expedition_handover
                        WHERE handover_wms_id = s.wms_id AND handover_state = 'pending' LIMIT $3)
                       UNION ALL
                       (SELECT handover_since FROM expedition_handover
                        WHERE handover_wms_id = s.wms_id AND handover_state IN ('sending', 'withdrawing') LIMIT $3)
                   ) AS h
               ) AS w
               CROSS JOIN LATERAL (
                   SELECT count(*) AS orders, (array_agg(e.id ORDER BY e.status_since))[1] AS first, min(e.status_since) AS since
                   FROM (
                       SELECT id, status_since FROM expedition
                       WHERE organisation_id = s.organisation_id AND status = 'waiting_for_cancel' AND wms_id = s.wms_id
                         AND status_since < now() - make_interval(secs => $4)
                       ORDER BY status_since LIMIT $3
                   ) AS e
               ) AS c
               WHERE s.active AND in_scope($1, s.organisation_id) AND $2::uuid IS NULL
                 AND (l.failing_since IS NOT NULL OR c.orders > 0 OR w.since < now() - make_interval(secs => $5))
           ), named AS (
               SELECT *, row_number() OVER (PARTITION BY organisation_id ORDER BY coalesce(failing_since, waiting_since), wms, wms_id) AS turn
               FROM found ORDER BY turn, coalesce(failing_since, waiting_since), wms, wms_id LIMIT $6
           )
           SELECT wms_id AS "wms_id!: WmsId", wms AS "wms!", organisation_id AS "organisation_id!: OrganisationId",
                  organisation AS "organisation!", is_paused AS "is_paused!", failing_since, error, waiting AS "waiting!", waiting_since,
                  unanswered AS "unanswered!", first_unanswered AS "first_unanswered: ExpeditionId", unanswered_since
           FROM named ORDER BY coalesce(failing_since, waiting_since), wms, wms_id"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        WAITING,
        UNANSWERED_SECONDS,
        BEHIND_SECONDS,
        SHOWN,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found)
}

/// The same of one organisation, which is in the scope.
pub async fn silent_of(
    db: &Database,
    scope: &Scope,
    organisation: OrganisationId,
) -> Result<Vec<Silent>, Problem> {
    match scope.eshop() {
        Some(_) => Ok(Vec::new()),
        None => silent(db, &Scope::Organisations(Arc::from([organisation]))).await,
    }
}

async fn count_refused(db: &Database, scope: &Scope) -> Result<i64, Problem> {
    let counts = super::search::counts_of(db, scope, &[ExpeditionStatus::Incorrect]).await?;
    Ok(counts.first().map_or(0, |(_, orders)| *orders))
}

async fn last_refused(db: &Database, scope: &Scope) -> Result<Option<DateTime<Utc>>, Problem> {
    let last = sqlx::query_scalar!(
        r#"SELECT max(e.status_since) FROM organisation o CROSS JOIN LATERAL (
               SELECT status_since FROM expedition e
               WHERE e.organisation_id = ANY (ARRAY[o.id]) AND e.status = 'incorrect'
                 AND in_eshop($2, e.eshop_id)
               ORDER BY e.organisation_id DESC, e.status_since DESC, e.id DESC LIMIT 1
           ) AS e WHERE in_scope($1, o.id)"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_one(&db.main)
    .await?;
    Ok(last)
}

async fn refused(db: &Database, scope: &Scope) -> Result<Vec<Refused>, Problem> {
    let found = sqlx::query_as!(
        Refused,
        r#"WITH having_orders AS MATERIALIZED (
               SELECT o.id FROM organisation o
               WHERE in_scope($1, o.id) AND (SELECT true FROM expedition e WHERE e.organisation_id = o.id
                                         ORDER BY e.status, e.status_since, e.id LIMIT 1)
           ), looked_at AS (
               SELECT e.* FROM having_orders o CROSS JOIN LATERAL (
                   SELECT e.id, e.eshop_id, e.errors, e.status_since FROM expedition e
                   WHERE e.organisation_id = ANY (ARRAY[o.id]) AND e.status = 'incorrect'
                   ORDER BY e.organisation_id, e.status_since, e.id LIMIT (SELECT $3::bigint)
               ) AS e WHERE in_eshop($2, e.eshop_id)
           ), error AS (
               SELECT l.id, l.status_since, coalesce(x ->> 'code', '') AS code,
                      regexp_replace(coalesce(x ->> 'propertyPath', ''), '\[[0-9]+\]', '[]', 'g') AS path,
                      left(coalesce(x ->> 'message', ''), 200) AS message
               FROM looked_at l CROSS JOIN LATERAL jsonb_array_elements(l.errors) AS x
           )
           SELECT code AS "code!", path AS "path!", message AS "message!", count(DISTINCT id) AS "orders!",
                  (array_agg(id ORDER BY status_since))[1] AS "first!: ExpeditionId", min(status_since) AS "since!"
           FROM error GROUP BY code, path, message ORDER BY count(DISTINCT id) DESC, code, path, message LIMIT $4"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
        SHOWN,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found)
}

async fn awaited(db: &Database, scope: &Scope) -> Result<Vec<Awaited>, Problem> {
    let found = sqlx::query_as!(
        Awaited,
        r#"WITH having_orders AS MATERIALIZED (
               SELECT o.id FROM organisation o
               WHERE in_scope($1, o.id) AND (SELECT true FROM expedition e WHERE e.organisation_id = o.id
                                         ORDER BY e.status, e.status_since, e.id LIMIT 1)
           ), looked_at AS (
               SELECT e.* FROM having_orders o CROSS JOIN LATERAL (
                   SELECT e.id, e.eshop_id, e.waits_for_id, e.waits_quantity, e.status_since FROM expedition e
                   WHERE e.organisation_id = ANY (ARRAY[o.id]) AND e.status = 'waiting_for_goods'
                   ORDER BY e.organisation_id, e.status_since, e.id LIMIT (SELECT $3::bigint)
               ) AS e WHERE in_eshop($2, e.eshop_id)
           ), stock AS (
               SELECT waits_for_id AS id, count(*) AS orders, sum(waits_quantity)::bigint AS pieces,
                      (array_agg(l.id ORDER BY status_since))[1] AS first, min(status_since) AS since
               FROM looked_at l GROUP BY 1 ORDER BY min(status_since) LIMIT $4
           )
           SELECT p.product_sku AS sku, w.name AS warehouse, m.name AS wms, s.orders AS "orders!", s.pieces AS "pieces!",
                  k.incoming, s.first AS "first!: ExpeditionId", s.since AS "since!"
           FROM stock s
           JOIN product_stock k ON k.id = s.id
           JOIN product p ON p.id = k.product_id
           JOIN warehouse w ON w.id = k.warehouse_id
           JOIN wms m ON m.id = k.wms_id
           ORDER BY s.since"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
        SHOWN,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found)
}

async fn marked(db: &Database, scope: &Scope, most: i64) -> Result<Vec<Marked>, Problem> {
    let found = sqlx::query_as!(
        Marked,
        r#"SELECT k.id, p.product_sku AS sku, w.name AS warehouse, m.name AS wms, k.marked_at AS "since!"
           FROM product_stock k
           JOIN product p ON p.id = k.product_id
           JOIN warehouse w ON w.id = k.warehouse_id
           JOIN wms m ON m.id = k.wms_id
           WHERE k.marked_at < now() - make_interval(secs => $3) AND in_scope($1, k.organisation_id) AND $2::uuid IS NULL
           ORDER BY k.marked_at LIMIT $4"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        MARKED_SECONDS,
        most,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found)
}

/// By the orders that are handed over and not packed: they are few, and there is no index of stocks that hold too much.
async fn short(db: &Database, scope: &Scope, looked_at: i64, most: i64) -> Result<Vec<Short>, Problem> {
    let found = sqlx::query_as!(
        Short,
        r#"WITH having_orders AS MATERIALIZED (
               SELECT o.id FROM organisation o
               WHERE in_scope($1, o.id) AND $2::uuid IS NULL
                 AND (SELECT true FROM expedition e WHERE e.organisation_id = o.id
                                         ORDER BY e.status, e.status_since, e.id LIMIT 1)
           ), picked AS MATERIALIZED (
               SELECT e.* FROM having_orders o
               CROSS JOIN unnest(ARRAY['awaiting_processing', 'take_out', 'completion', 'waiting_for_cancel']) AS s (status)
               CROSS JOIN LATERAL (
                   SELECT e.id, e.warehouse_id, e.wms_id FROM expedition e LEFT JOIN expedition_handover n ON n.id = e.id
                   WHERE e.organisation_id = ANY (ARRAY[o.id]) AND e.status = s.status
                     AND is_handed_over(e.status, n.handover_state)
                   ORDER BY e.organisation_id, e.status_since, e.id LIMIT (SELECT $3::bigint)
               ) AS e
           ), taken AS (
               SELECT i.product_id, e.warehouse_id, e.wms_id, sum(i.quantity)::bigint AS held,
                      (array_agg(e.id ORDER BY e.id))[1] AS first
               FROM picked e JOIN expedition_item i ON i.expedition_id = ANY (ARRAY[e.id]) GROUP BY 1, 2, 3
           ), short AS MATERIALIZED (
               SELECT k.id, k.product_id, k.warehouse_id, k.wms_id, k.quantity, k.changed_at, t.held, t.first FROM taken t
               JOIN product_stock k ON k.product_id = ANY (ARRAY[t.product_id]) AND k.warehouse_id = ANY (ARRAY[t.warehouse_id])
                   AND k.wms_id = ANY (ARRAY[t.wms_id])
               WHERE k.quantity < t.held
               ORDER BY t.held - k.quantity DESC, k.id LIMIT $4
           )
           SELECT k.id, p.product_sku AS sku, w.name AS warehouse, m.name AS wms, k.quantity, k.held AS "held!",
                  k.first AS "order!: ExpeditionId", d.order_number, k.changed_at
           FROM short k
           JOIN product p ON p.id = k.product_id
           JOIN warehouse w ON w.id = k.warehouse_id
           JOIN wms m ON m.id = k.wms_id
           JOIN expedition_detail d ON d.id = ANY (ARRAY[k.first])
           ORDER BY k.held - k.quantity DESC, k.id"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        looked_at,
        most,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found)
}
