//! Pushes: the caller sends the rows. This module reads the header; [`crate::job::receiving`] receives the rows.

use serde_json::Value;
use uuid::Uuid;

use super::setting;
use crate::job::kind::{Shop, SyncProducts, SyncStocks};
use crate::job::receiving::Target;
use longshore_kernel::access::Scope;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{EshopId, OrganisationId, parse_id};
use longshore_kernel::input::{self, Reader};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Which rows a sync brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// `{productSku, name, …}`.
    Products,
    /// `{productSku, quantity}`.
    Stocks,
}

impl Push {
    /// Name of the member that holds the rows in the JSON form.
    #[must_use]
    pub fn rows_member(self) -> &'static str {
        match self {
            Self::Products => "products",
            Self::Stocks => "stocks",
        }
    }

    /// Name of the member that, without rows, says that they are to be fetched.
    #[must_use]
    pub fn pull_mark(self) -> &'static str {
        match self {
            Self::Products => "inventoryId",
            Self::Stocks => "warehouseId",
        }
    }

    /// Name of the member that says what of the partner is meant.
    #[must_use]
    pub fn source_member(self) -> &'static str {
        match self {
            Self::Products => "inventoryId",
            Self::Stocks => "warehouseId",
        }
    }
}

/// Reads what the rows are for: `{eshop, inventoryId?}` or `{eshop, warehouseId}`.
pub async fn target(
    services: &Services,
    context: &Context,
    push: Push,
    header: Value,
) -> Result<Target, Problem> {
    match push {
        Push::Products => products(services, context, header).await,
        Push::Stocks => stocks(services, context, header).await,
    }
}

async fn products(services: &Services, context: &Context, header: Value) -> Result<Target, Problem> {
    let (eshop, inventory_id) = Reader::read(header, |reader, header| {
        let mut header = reader.object(header)?;
        let eshop = header.required("eshop", input::id);
        let inventory_id = header.optional("inventoryId", input::text(1..=255));
        header.finish();
        Some((EshopId::from(eshop?), inventory_id))
    })?;
    let organisation = organisation_of(services, context.scope(), eshop).await?;
    let scope_eshop = context.scope().eshop();
    Target::new(&SyncProducts { scope_eshop, inventory_id }, Shop { organisation, eshop })
}

async fn stocks(services: &Services, context: &Context, header: Value) -> Result<Target, Problem> {
    let (eshop, warehouse_id) = Reader::read(header, |reader, header| {
        let mut header = reader.object(header)?;
        let eshop = header.required("eshop", input::id);
        let warehouse_id = header.required("warehouseId", input::text(1..=255));
        header.finish();
        Some((EshopId::from(eshop?), warehouse_id?))
    })?;
    let organisation = organisation_of(services, context.scope(), eshop).await?;
    let (warehouse, wms) = place(services, organisation, eshop, &warehouse_id).await?;
    let scope_eshop = context.scope().eshop();
    Target::new(&SyncStocks { scope_eshop, warehouse, wms }, Shop { organisation, eshop })
}

/// The warehouse and the wms in it that a `warehouseId` means for an e-shop.
pub(super) async fn place(
    services: &Services,
    organisation: OrganisationId,
    eshop: EshopId,
    warehouse_id: &str,
) -> Result<(Uuid, Uuid), Problem> {
    let located =
        setting::locate(services, organisation, eshop, warehouse_id, parse_id(warehouse_id)).await?;
    let found = located.ok_or_else(|| {
        let message =
            "must be a warehouse of the organisation, or one mapped by the e-shop's integration setting";
        Problem::violation("warehouseId", "unknown_reference", message)
    })?;
    let wms = found.wms.ok_or_else(|| {
        let message = "names a warehouse without a default wms, and no integration setting maps it to one";
        Problem::violation("warehouseId", "no_wms", message)
    })?;
    Ok((found.warehouse, wms))
}

/// Organisation of an e-shop of the scope.
pub(super) async fn organisation_of(
    services: &Services,
    scope: &Scope,
    eshop: EshopId,
) -> Result<OrganisationId, Problem> {
    sqlx::query_scalar!(
        r#"SELECT organisation_id AS "organisation: OrganisationId" FROM eshop
           WHERE id = $1 AND in_scope($2, organisation_id) AND in_eshop($3, id)"#,
        eshop.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_optional(&services.db.main)
    .await?
    .ok_or_else(|| Problem::violation("eshop", "unknown_reference", "there is no such e-shop"))
}
