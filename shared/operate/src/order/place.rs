//! Where the orders of an e-shop can be shipped from.

use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId, WarehouseId, WmsId};
use longshore_kernel::problem::Problem;

/// Places that a form offers.
const OFFERED: i64 = 200;

/// A warehouse of an e-shop, with a wms that is linked to it.
#[derive(Clone, Debug)]
pub struct Place {
    /// The warehouse.
    pub warehouse_id: WarehouseId,
    /// Name of the warehouse.
    pub warehouse: String,
    /// The wms.
    pub wms_id: WmsId,
    /// Name of the wms.
    pub wms: String,
}

/// The places of an e-shop of a scope, by name.
pub async fn of_eshop(db: &Database, scope: &Scope, eshop: EshopId) -> Result<Vec<Place>, Problem> {
    let places = sqlx::query_as!(
        Place,
        r#"SELECT w.id AS "warehouse_id: WarehouseId", w.name AS warehouse, m.id AS "wms_id: WmsId", m.name AS wms
           FROM eshop_warehouse x
           JOIN warehouse w ON w.id = x.warehouse_id
           JOIN warehouse_wms l ON l.warehouse_id = w.id
           JOIN wms m ON m.id = l.wms_id
           WHERE x.eshop_id = $1 AND in_scope($2, w.organisation_id) AND in_eshop($3, x.eshop_id)
           ORDER BY w.name, w.id, m.name, m.id LIMIT $4"#,
        eshop.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        OFFERED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(places)
}
