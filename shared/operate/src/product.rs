//! One product: where it is in stock, which orders hold it, and what happened to it.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use longshore_domain::list::fields::expedition::ExpeditionStatus;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, ExpeditionId, OrganisationId, ProductId};
use longshore_kernel::problem::Problem;

use crate::timeline::{self, About, Timeline, Wanted};

/// Orders that are shown: the newest that have not been packed.
pub const ORDERS: i64 = 50;
/// Orders of the product among which those of the caller are looked for: the newest.
const LOOKED_AT: i64 = 500;
/// E-shops that are shown.
const ESHOPS: i64 = 50;
/// Places that are shown.
const PLACES: i64 = 100;

/// A product.
#[derive(Clone, Debug)]
pub struct Product {
    /// Its id.
    pub id: ProductId,
    /// Its SKU.
    pub sku: String,
    /// The organisation's own SKU.
    pub internal_sku: String,
    /// Its name.
    pub name: String,
    /// Physical, virtual, or a bundle.
    pub kind: String,
    /// Whether it is active.
    pub active: bool,
    /// Its organisation.
    pub organisation_id: OrganisationId,
    /// Name of that.
    pub organisation: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it changed.
    pub changed_at: DateTime<Utc>,
    /// Its version.
    pub version: i64,
}

/// An e-shop that sells it.
#[derive(Clone, Debug)]
pub struct Eshop {
    /// Its id.
    pub id: EshopId,
    /// Its name.
    pub name: String,
}

/// Its stock in one place.
#[derive(Clone, Debug)]
pub struct Stock {
    /// Its id.
    pub id: Uuid,
    /// Name of the warehouse.
    pub warehouse: String,
    /// Name of the wms.
    pub wms: String,
    /// Pieces that are there.
    pub quantity: i32,
    /// Pieces that orders hold.
    pub held: i64,
    /// Pieces that orders wait for.
    pub missing: i64,
    /// Pieces on their way.
    pub incoming: i32,
    /// When it changed.
    pub changed_at: DateTime<Utc>,
}

/// An order that has not been packed.
#[derive(Clone, Debug)]
pub struct Order {
    /// Its id.
    pub id: ExpeditionId,
    /// Its number.
    pub number: String,
    /// Its status.
    pub status: ExpeditionStatus,
    /// Since when.
    pub status_since: DateTime<Utc>,
    /// Name of its e-shop.
    pub eshop: String,
    /// Pieces of the product.
    pub quantity: i64,
}

/// A product with everything that belongs to it.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The product.
    pub product: Product,
    /// E-shops that sell it, by name.
    pub eshops: Vec<Eshop>,
    /// Its stocks, those with most first.
    pub stocks: Vec<Stock>,
    /// Orders with it that have not been packed, newest first, at most [`ORDERS`].
    pub orders: Vec<Order>,
    /// What happened to it.
    pub timeline: Timeline,
}

/// The product of that id, if it is in the scope.
pub async fn inspect(
    db: &Database,
    scope: &Scope,
    id: ProductId,
    wanted: &Wanted,
) -> Result<Option<Inspection>, Problem> {
    let Some(product) = find(db, scope, id).await? else { return Ok(None) };
    let (eshops, stocks, orders) =
        tokio::try_join!(eshops(db, scope, id), stocks(db, id), orders(db, scope, id))?;
    let about = About {
        entities: std::iter::once(id.get()).chain(stocks.iter().map(|stock| stock.id)).collect(),
        orders: orders.iter().map(|order| order.id.get()).collect(),
        product: Some(id.get()),
        expedition: None,
        eshops: eshops.iter().map(|eshop| eshop.id).collect(),
        audit: wanted.audit,
        deliveries: wanted.deliveries,
        since: wanted.since,
        until: wanted.until,
    };
    let timeline = timeline::read(db, scope, &about).await?;
    Ok(Some(Inspection { product, eshops, stocks, orders, timeline }))
}

async fn find(db: &Database, scope: &Scope, id: ProductId) -> Result<Option<Product>, Problem> {
    let found = sqlx::query_as!(
        Product,
        r#"SELECT p.id, p.product_sku AS sku, p.internal_sku, p.name, p.type AS kind, p.active, p.organisation_id,
                  o.name AS organisation, p.created_at, p.changed_at, p.version
           FROM product p JOIN organisation o ON o.id = p.organisation_id
           WHERE p.id = $1 AND in_scope($2, p.organisation_id)
             AND ($3::uuid IS NULL OR EXISTS (SELECT FROM product_eshop e WHERE e.product_id = p.id AND e.eshop_id = $3))"#,
        id.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_optional(&db.lists)
    .await?;
    Ok(found)
}

async fn eshops(db: &Database, scope: &Scope, id: ProductId) -> Result<Vec<Eshop>, Problem> {
    let found = sqlx::query_as!(
        Eshop,
        "SELECT s.id, s.name FROM product_eshop p JOIN eshop s ON s.id = p.eshop_id
         WHERE p.product_id = $1 AND in_eshop($2, s.id) ORDER BY s.name, s.id LIMIT $3",
        id.get(),
        scope.eshop() as Option<EshopId>,
        ESHOPS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

async fn stocks(db: &Database, id: ProductId) -> Result<Vec<Stock>, Problem> {
    let found = sqlx::query_as!(
        Stock,
        r#"SELECT k.id, w.name AS warehouse, m.name AS wms, k.quantity, k.held, k.missing, k.incoming, k.changed_at
           FROM product_stock k JOIN warehouse w ON w.id = k.warehouse_id JOIN wms m ON m.id = k.wms_id
           WHERE k.product_id = $1 ORDER BY k.quantity DESC, w.name, m.name LIMIT $2"#,
        id.get(),
        PLACES,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

async fn orders(db: &Database, scope: &Scope, id: ProductId) -> Result<Vec<Order>, Problem> {
    let found = sqlx::query_as!(
        Order,
        r#"SELECT e.id, d.order_number AS number, e.status AS "status: ExpeditionStatus", e.status_since, s.name AS eshop,
                  i.quantity AS "quantity!"
           FROM (SELECT expedition_id, sum(quantity) AS quantity FROM expedition_item
                 WHERE product_id = $1 AND expedited IS NULL GROUP BY expedition_id
                 ORDER BY expedition_id DESC LIMIT $5) AS i
           JOIN expedition e ON e.id = ANY (ARRAY[i.expedition_id])
           JOIN expedition_detail d ON d.id = ANY (ARRAY[i.expedition_id])
           JOIN eshop s ON s.id = e.eshop_id
           WHERE in_scope($2, e.organisation_id) AND in_eshop($3, e.eshop_id)
           ORDER BY i.expedition_id DESC LIMIT $4"#,
        id.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        ORDERS,
        LOOKED_AT,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
