//! One order: where it is, what it waits for, when that will come, and what happened to it.

use chrono::{DateTime, NaiveDate, Utc};
use serde_json::Value;
use uuid::Uuid;

use longshore_domain::list::fields::expedition::{ExpeditionStatus, HandoverState};
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, ExpeditionId, OrganisationId, WmsId};
use longshore_kernel::problem::Problem;

use crate::timeline::{self, About, Timeline, Wanted};

/// Parcels that are shown.
pub const PARCELS: i64 = 100;
/// Products that are missing which are shown with what is on its way.
pub const LACKS: i64 = 100;
/// Advices of a missing product that are shown: those that are expected first.
const ADVICES: i64 = 5;
/// Other stocks of a missing product that are shown: those that have most.
const ELSEWHERE: i64 = 3;
/// Orders before this one that are counted.
pub const AHEAD: i64 = 1_000;

/// An order with everything that belongs to it.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The order.
    pub order: Order,
    /// Its items.
    pub items: Vec<Item>,
    /// Its parcels, at most [`PARCELS`].
    pub parcels: Vec<Parcel>,
    /// Products that have too little for it, at most [`LACKS`]; of one that waits only.
    pub lacks: Vec<Lack>,
    /// Orders that are served before it, up to [`AHEAD`]; of one that waits only.
    pub ahead: i64,
    /// Webhooks that listen to orders of the e-shop.
    pub listeners: i64,
    /// What happened to it.
    pub timeline: Timeline,
}

/// An order.
#[derive(Clone, Debug)]
pub struct Order {
    /// Its id.
    pub id: ExpeditionId,
    /// Its number.
    pub number: String,
    /// The e-shop's own id.
    pub external_id: Option<String>,
    /// Its organisation.
    pub organisation_id: OrganisationId,
    /// Name of that.
    pub organisation: String,
    /// Its e-shop.
    pub eshop_id: EshopId,
    /// Name of that.
    pub eshop: String,
    /// Name of its warehouse.
    pub warehouse: String,
    /// Its wms.
    pub wms_id: WmsId,
    /// Name of its wms.
    pub wms: String,
    /// Name of its carrier.
    pub carrier: Option<String>,
    /// Name of the service.
    pub carrier_service: Option<String>,
    /// Position of the carrier preference that chose them; absent where the order named them, or the preference is gone.
    pub chosen_by: Option<i32>,
    /// Country of delivery.
    pub country: Option<String>,
    /// Its status.
    pub status: ExpeditionStatus,
    /// Since when.
    pub status_since: DateTime<Utc>,
    /// Where its hand-over is.
    pub handover: Option<HandoverState>,
    /// Which hand-over of the order that is.
    pub handover_number: Option<i32>,
    /// Since when it is there.
    pub handover_since: Option<DateTime<Utc>>,
    /// Calls of the warehouse that have begun in that state.
    pub handover_attempts: Option<i32>,
    /// When the warehouse is called next.
    pub handover_next_attempt_at: Option<DateTime<Utc>>,
    /// What its last call came to, if it failed or was refused.
    pub handover_error: Option<String>,
    /// What the warehouse calls the order.
    pub wms_internal_id: Option<String>,
    /// Of one that the warehouse may have under a number that is not known, since a set-back: whether it does have it, maybe with other
    /// items or another address. Absent: it is not in doubt.
    pub contents_unknown: Option<bool>,
    /// Whether its warehouse is not called since Postgres was set back, and that is not mended.
    pub is_set_back: bool,
    /// Whether its reservation is paused.
    pub is_paused: bool,
    /// Who has a higher one is served first.
    pub priority: i32,
    /// What was wrong when it was last sent.
    pub errors: Option<Value>,
    /// SKU of the product that it waits for.
    pub waits_for: Option<String>,
    /// Whether that stock is marked, so that the allocator is about to look.
    pub is_marked: bool,
    /// Pieces.
    pub pieces: i64,
    /// Whether everything was packed.
    pub expedited_completely: Option<bool>,
    /// When it has to leave.
    pub required_date: Option<NaiveDate>,
    /// Its tracking number.
    pub tracking_number: Option<String>,
    /// When it was packed.
    pub packed_at: Option<DateTime<Utc>>,
    /// When it left.
    pub sent_at: Option<DateTime<Utc>>,
    /// When it was delivered.
    pub delivered_at: Option<DateTime<Utc>>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it changed.
    pub changed_at: DateTime<Utc>,
    /// Its version.
    pub version: i64,
}

/// An item of an order.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its place.
    pub position: i32,
    /// The product.
    pub product: Uuid,
    /// SKU of the product; absent where that is gone.
    pub sku: Option<String>,
    /// Name of the product.
    pub name: Option<String>,
    /// SKU of the bundle that it is a part of.
    pub bundle: Option<String>,
    /// Pieces.
    pub quantity: i32,
    /// Pieces that were packed; null until then.
    pub expedited: Option<i32>,
}

impl Item {
    /// Pieces that are booked.
    #[must_use]
    pub fn booked(&self, status: ExpeditionStatus) -> i32 {
        if status.is_booked() { self.quantity } else { 0 }
    }

    /// Pieces that are missing; `None` where that is not known yet, or no longer matters.
    #[must_use]
    pub fn missing(&self, status: ExpeditionStatus) -> Option<i32> {
        (status.is_waiting() || status.is_booked()).then(|| self.quantity - self.booked(status))
    }
}

/// A parcel.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// Its number.
    pub number: String,
    /// The tracking number.
    pub tracking_number: Option<String>,
    /// The carrier's tracking number.
    pub carrier_tracking_number: Option<String>,
    /// Where it can be followed.
    pub tracking_url: Option<String>,
    /// When it was reported.
    pub created_at: DateTime<Utc>,
}

/// A product that has fewer free pieces in its place than a waiting order needs.
#[derive(Clone, Debug)]
pub struct Lack {
    /// The product.
    pub product: Uuid,
    /// Its SKU.
    pub sku: String,
    /// Pieces that the order needs.
    pub needed: i64,
    /// Pieces that are free in its place.
    pub free: i64,
    /// Open advices that announce it, the first expected first.
    pub advices: Vec<Advice>,
    /// Where else pieces are free, the most first.
    pub elsewhere: Vec<Elsewhere>,
}

/// An open stock advice that announces a product.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The product.
    pub product: Uuid,
    /// Its id.
    pub id: Uuid,
    /// What the organisation calls it.
    pub internal_id: String,
    /// Its status.
    pub status: String,
    /// When it is expected.
    pub expected_at: DateTime<Utc>,
    /// Pieces that have not come yet.
    pub open: i64,
}

/// Pieces of a product in a place that does not serve the order.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    /// The product.
    pub product: Uuid,
    /// The warehouse.
    pub warehouse_id: Uuid,
    /// Name of the warehouse.
    pub warehouse: String,
    /// The wms.
    pub wms_id: Uuid,
    /// Name of the wms.
    pub wms: String,
    /// Pieces that are free there.
    pub free: i64,
    /// Whether orders of the e-shop can be shipped from there.
    pub is_served: bool,
}

/// An order of a scope.
pub async fn find(db: &Database, scope: &Scope, id: ExpeditionId) -> Result<Option<Order>, Problem> {
    let found = sqlx::query_as!(
        Order,
        r#"SELECT e.id, d.order_number AS number, d.external_id, e.organisation_id, o.name AS organisation,
                  e.eshop_id, s.name AS eshop, w.name AS warehouse, e.wms_id AS "wms_id: WmsId", m.name AS wms,
                  (SELECT name FROM carrier c WHERE c.id = d.carrier_id) AS carrier,
                  (SELECT name FROM carrier_service v WHERE v.id = d.carrier_service_id) AS carrier_service,
                  (SELECT position FROM carrier_preference f WHERE f.id = d.carrier_preference_id) AS chosen_by,
                  d.delivery_country AS country, e.status AS "status: ExpeditionStatus", e.status_since,
                  n.handover_state AS "handover: HandoverState", n.handover_number AS "handover_number?",
                  n.handover_since AS "handover_since?", n.handover_attempts AS "handover_attempts?",
                  n.handover_next_attempt_at, n.handover_error, n.wms_internal_id,
                  CASE WHEN n.handover_in_doubt THEN n.handover_contents_unknown END AS contents_unknown,
                  coalesce(n.handover_state IN ('pending', 'sending', 'withdrawing'), false)
                      AND EXISTS (SELECT FROM set_back WHERE mended_at IS NULL) AS "is_set_back!",
                  e.reservation_paused AS is_paused, e.priority, e.errors, p.product_sku AS "waits_for?",
                  k.marked_at IS NOT NULL AS "is_marked!", e.sum_of_quantity AS pieces, e.expedited_completely,
                  d.required_expedition_date AS required_date, d.tracking_number, e.packed_at, e.sent_at, e.delivered_at,
                  e.created_at, e.changed_at, e.version
           FROM expedition e
           JOIN expedition_detail d ON d.id = e.id
           JOIN organisation o ON o.id = e.organisation_id
           JOIN eshop s ON s.id = e.eshop_id
           JOIN warehouse w ON w.id = e.warehouse_id
           JOIN wms m ON m.id = e.wms_id
           LEFT JOIN expedition_handover n ON n.id = e.id
           LEFT JOIN product_stock k ON k.id = e.waits_for_id
           LEFT JOIN product p ON p.id = k.product_id
           WHERE e.id = $1 AND in_scope($2, e.organisation_id) AND in_eshop($3, e.eshop_id)"#,
        id.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_optional(&db.lists)
    .await?;
    Ok(found)
}

/// The same with everything that belongs to it.
pub async fn inspect(
    db: &Database,
    scope: &Scope,
    id: ExpeditionId,
    wanted: &Wanted,
) -> Result<Option<Inspection>, Problem> {
    let Some(order) = find(db, scope, id).await? else { return Ok(None) };
    let waits = order.status.is_waiting();
    let about = About {
        entities: vec![id.get()],
        expedition: Some(id),
        eshops: vec![order.eshop_id],
        audit: wanted.audit,
        deliveries: wanted.deliveries,
        since: wanted.since,
        until: wanted.until,
        ..About::default()
    };
    let (items, parcels, lacks, ahead, listeners, timeline) = tokio::try_join!(
        items(db, id),
        parcels(db, id),
        async { if waits { lacks(db, id).await } else { Ok(Vec::new()) } },
        async { if waits { ahead(db, id).await } else { Ok(0) } },
        listeners(db, order.eshop_id),
        timeline::read(db, scope, &about),
    )?;
    Ok(Some(Inspection { order, items, parcels, lacks, ahead, listeners, timeline }))
}

async fn items(db: &Database, id: ExpeditionId) -> Result<Vec<Item>, Problem> {
    let found = sqlx::query_as!(
        Item,
        r#"SELECT i.position, i.product_id AS product, p.product_sku AS "sku?", p.name AS "name?", b.product_sku AS "bundle?", i.quantity, i.expedited
           FROM expedition_item i
           LEFT JOIN product p ON p.id = i.product_id
           LEFT JOIN expedition_bundle u ON u.expedition_id = i.expedition_id AND u.position = i.bundle_position
           LEFT JOIN product b ON b.id = u.product_id
           WHERE i.expedition_id = $1 ORDER BY i.position"#,
        id.get(),
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

async fn parcels(db: &Database, id: ExpeditionId) -> Result<Vec<Parcel>, Problem> {
    let found = sqlx::query_as!(
        Parcel,
        "SELECT ext_package_number AS number, ext_package_tracking_number AS tracking_number,
                ext_carrier_tracking_number AS carrier_tracking_number, tracking_url, created_at
         FROM expedition_parcel WHERE expedition_id = $1 ORDER BY created_at, id LIMIT $2",
        id.get(),
        PARCELS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// What a waiting order lacks, and where it could come from.
async fn lacks(db: &Database, id: ExpeditionId) -> Result<Vec<Lack>, Problem> {
    let rows = sqlx::query!(
        r#"SELECT n.product_id AS product, coalesce(p.product_sku, '') AS "sku!", n.needed AS "needed!",
                  greatest(0, coalesce(k.quantity - k.held, 0)) AS "free!"
           FROM expedition e
           CROSS JOIN LATERAL (
               SELECT product_id, sum(quantity)::bigint AS needed, min(position) AS position
               FROM expedition_item WHERE expedition_id = e.id GROUP BY product_id
           ) AS n
           LEFT JOIN product p ON p.id = n.product_id
           LEFT JOIN product_stock k ON k.product_id = n.product_id AND k.warehouse_id = e.warehouse_id AND k.wms_id = e.wms_id
           WHERE e.id = $1 AND n.needed > greatest(0, coalesce(k.quantity - k.held, 0))
           ORDER BY coalesce(k.id = e.waits_for_id, false) DESC, n.position LIMIT $2"#,
        id.get(),
        LACKS,
    )
    .fetch_all(&db.lists)
    .await?;
    let products: Vec<Uuid> = rows.iter().map(|row| row.product).collect();
    let (mut advices, mut elsewhere) =
        tokio::try_join!(advices(db, id, &products), elsewhere(db, id, &products))?;
    let mut lack = |product, sku, needed, free| Lack {
        product,
        sku,
        needed,
        free,
        advices: advices.extract_if(.., |advice| advice.product == product).collect(),
        elsewhere: elsewhere.extract_if(.., |stock| stock.product == product).collect(),
    };
    Ok(rows.into_iter().map(|row| lack(row.product, row.sku, row.needed, row.free)).collect())
}

/// Open advices of the order's place that announce products.
async fn advices(db: &Database, id: ExpeditionId, products: &[Uuid]) -> Result<Vec<Advice>, Problem> {
    let found = sqlx::query_as!(
        Advice,
        r#"SELECT x.product AS "product!", a.id AS "id!", a.internal_id AS "internal_id!", a.status AS "status!",
                  a.expected_at AS "expected_at!", a.open AS "open!"
           FROM unnest($2::uuid[]) AS x (product)
           CROSS JOIN LATERAL (
               SELECT a.id, a.internal_id, a.status, a.expected_at, sum(i.quantity - i.received)::bigint AS open
               FROM stock_advice_item i
               JOIN stock_advice a ON a.id = i.stock_advice_id AND a.status IN ('new', 'receiving')
               JOIN expedition e ON e.id = $1 AND e.warehouse_id = a.warehouse_id AND e.wms_id = a.wms_id
               WHERE i.product_id = x.product AND i.received < i.quantity
               GROUP BY a.id ORDER BY a.expected_at, a.id LIMIT $3
           ) AS a
           ORDER BY a.expected_at, a.id"#,
        id.get(),
        products,
        ADVICES,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// Free pieces of products in other places of the same organisation.
async fn elsewhere(db: &Database, id: ExpeditionId, products: &[Uuid]) -> Result<Vec<Elsewhere>, Problem> {
    let found = sqlx::query_as!(
        Elsewhere,
        r#"SELECT x.product AS "product!", w.id AS "warehouse_id!", w.name AS "warehouse!", m.id AS "wms_id!", m.name AS "wms!",
                  k.free AS "free!",
                  EXISTS (SELECT FROM eshop_warehouse v WHERE v.eshop_id = k.eshop_id AND v.warehouse_id = w.id)
                      AND EXISTS (SELECT FROM warehouse_wms l WHERE l.warehouse_id = w.id AND l.wms_id = m.id) AS "is_served!"
           FROM unnest($2::uuid[]) AS x (product)
           CROSS JOIN LATERAL (
               SELECT k.warehouse_id, k.wms_id, k.quantity - k.held AS free, e.eshop_id
               FROM product_stock k
               JOIN expedition e ON e.id = $1 AND e.organisation_id = k.organisation_id
                   AND (e.warehouse_id, e.wms_id) <> (k.warehouse_id, k.wms_id)
               WHERE k.product_id = x.product AND k.quantity > k.held
               ORDER BY k.quantity - k.held DESC, k.id LIMIT $3
           ) AS k
           JOIN warehouse w ON w.id = k.warehouse_id
           JOIN wms m ON m.id = k.wms_id
           ORDER BY k.free DESC"#,
        id.get(),
        products,
        ELSEWHERE,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// Orders that wait for the same stock and are served before this one.
async fn ahead(db: &Database, id: ExpeditionId) -> Result<i64, Problem> {
    let ahead = sqlx::query_scalar!(
        r#"SELECT count(*) AS "ahead!" FROM expedition e CROSS JOIN LATERAL (
               SELECT FROM expedition o
               WHERE o.waits_for_id = e.waits_for_id
                 AND (o.priority > e.priority OR o.priority = e.priority AND (o.created_at, o.id) < (e.created_at, e.id))
               ORDER BY o.priority DESC, o.created_at, o.id LIMIT $2
           ) AS before WHERE e.id = $1"#,
        id.get(),
        AHEAD,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(ahead)
}

async fn listeners(db: &Database, eshop: EshopId) -> Result<i64, Problem> {
    let listeners = sqlx::query_scalar!(
        r#"SELECT count(*) AS "listeners!" FROM webhook
           WHERE source_id IN ($1, (SELECT organisation_id FROM eshop WHERE id = $1)) AND events && ARRAY['expedition_status_change', 'expedition_booked_change', 'expedition_change', 'expedition_deleted']"#,
        eshop.get(),
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(listeners)
}
