//! Pushes: the caller sends the rows. This module reads the header; [`crate::job::receiving`] receives the rows.

use serde_json::Value;
use uuid::Uuid;

use super::setting;
use crate::job::chosen::DRY_RUN;
use crate::job::guard::{self, GUARD, Guard};
use crate::job::kind::{JobKind, Shop, SyncExpeditions, SyncProducts, SyncStocks, TakeNews};
use crate::job::receiving::Target;
use longshore_kernel::access::Scope;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{EshopId, OrganisationId, WmsId, parse_id};
use longshore_kernel::input::{Object, Reader, Rule, boolean, id, object, text};
use longshore_kernel::problem::{Problem, Violation, with_found};
use longshore_kernel::services::Services;

/// Which rows a sync brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// `{productSku, name, …}`.
    Products,
    /// `{productSku, quantity}`.
    Stocks,
    /// `{orderNumber, items, …}`.
    Expeditions,
    /// `{id, expedition, status, …}`: what a warehouse reports.
    News,
}

impl Push {
    /// The kind of its jobs.
    #[must_use]
    pub fn kind(self) -> JobKind {
        match self {
            Self::Products => JobKind::ProductSync,
            Self::Stocks => JobKind::StockSync,
            Self::Expeditions => JobKind::ExpeditionSync,
            Self::News => JobKind::ExpeditionNews,
        }
    }

    /// Name of the member that holds the rows in the JSON form.
    #[must_use]
    pub fn rows_member(self) -> &'static str {
        match self {
            Self::Products => "products",
            Self::Stocks => "stocks",
            Self::Expeditions => "expeditions",
            Self::News => "news",
        }
    }

    /// Name of the member that says what of the partner is meant: without rows, it says that they are to be fetched. None
    /// where partners have no such rows.
    #[must_use]
    pub fn source_member(self) -> Option<&'static str> {
        match self {
            Self::Products => Some("inventoryId"),
            Self::Stocks => Some("warehouseId"),
            Self::Expeditions | Self::News => None,
        }
    }

    /// Name of the member of the header that says whose the rows are.
    #[must_use]
    pub fn whose_member(self) -> &'static str {
        if self == Self::News { "wms" } else { "eshop" }
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
        Push::Expeditions => expeditions(services, context, header).await,
        Push::News => news(services, context, header).await,
    }
}

/// What rows of products are for.
pub fn product_header() -> impl Rule<Out = (EshopId, Option<String>, How)> {
    object(|header| {
        let eshop = header.required("eshop", id());
        let inventory_id = header.optional("inventoryId", text(1..=255));
        Some((eshop.unwrap_or_default().into(), inventory_id, How::read(header)))
    })
}

/// What rows of stocks are for.
pub fn stock_header() -> impl Rule<Out = (EshopId, String, How)> {
    object(|header| {
        let eshop = header.required("eshop", id());
        let warehouse_id = header.required("warehouseId", text(1..=255));
        Some((eshop.unwrap_or_default().into(), warehouse_id.unwrap_or_default(), How::read(header)))
    })
}

/// How the rows of a push are executed.
#[derive(Clone, Debug, Default)]
pub struct How {
    is_dry_run: bool,
    guard: Option<Guard>,
}

impl How {
    fn read(header: &mut Object<'_>) -> Self {
        let is_dry_run = header.optional_or(DRY_RUN, boolean(), false);
        Self { is_dry_run, guard: header.optional(GUARD, guard::rule()) }
    }

    /// What a job is for, executed so.
    fn aim(&self, target: Target) -> Result<Target, Problem> {
        target.tried(self.is_dry_run).guarded(self.guard.as_ref())
    }
}

async fn products(services: &Services, context: &Context, header: Value) -> Result<Target, Problem> {
    let ((eshop, inventory_id, how), refused) = Reader::draft(header, product_header());
    let organisation = owner(services, context, eshop, refused).await?;
    let scope_eshop = context.scope().eshop();
    how.aim(Target::new(&SyncProducts { scope_eshop, inventory_id }, Shop { organisation, eshop })?)
}

async fn stocks(services: &Services, context: &Context, header: Value) -> Result<Target, Problem> {
    let ((eshop, warehouse_id, how), refused) = Reader::draft(header, stock_header());
    let organisation = owner(services, context, eshop, refused).await?;
    let (warehouse, wms) = place(services, organisation, eshop, &warehouse_id).await?;
    let scope_eshop = context.scope().eshop();
    how.aim(Target::new(&SyncStocks { scope_eshop, warehouse, wms }, Shop { organisation, eshop })?)
}

/// What rows of orders are for.
pub fn expedition_header() -> impl Rule<Out = (EshopId, Option<bool>, How)> {
    object(|header| {
        let eshop = header.required("eshop", id());
        let send = header.nullable("send", boolean()).value();
        Some((eshop.unwrap_or_default().into(), send, How::read(header)))
    })
}

async fn expeditions(services: &Services, context: &Context, header: Value) -> Result<Target, Problem> {
    let ((eshop, send, how), refused) = Reader::draft(header, expedition_header());
    let organisation = owner(services, context, eshop, refused).await?;
    how.aim(Target::new(&SyncExpeditions { send }, Shop { organisation, eshop })?)
}

/// What rows of news are for.
pub fn news_header() -> impl Rule<Out = WmsId> {
    object(|header| header.required("wms", id()).map(WmsId::from))
}

async fn news(services: &Services, context: &Context, header: Value) -> Result<Target, Problem> {
    let wms = Reader::read(header, news_header())?;
    let scope = context.scope();
    let organisation = sqlx::query_scalar!(
        r#"SELECT organisation_id AS "organisation: OrganisationId" FROM wms
           WHERE id = $1 AND in_scope($2, organisation_id) AND in_wms($3, id)"#,
        wms.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.wms() as Option<WmsId>,
    )
    .fetch_optional(&services.db.main)
    .await?
    .ok_or_else(|| Problem::violation("wms", "unknown_reference", "does not exist"))?;
    Target::of_wms(&TakeNews { wms }, organisation, wms)
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

/// Organisation of the e-shop of a header, unless that, or something else of the header, is refused.
async fn owner(
    services: &Services,
    context: &Context,
    eshop: EshopId,
    refused: Vec<Violation>,
) -> Result<OrganisationId, Problem> {
    match organisation_of(services, context.scope(), eshop).await {
        Ok(organisation) if refused.is_empty() => Ok(organisation),
        Ok(_) => Err(Problem::invalid(refused)),
        Err(problem) if problem.violations().is_empty() => Err(problem),
        Err(problem) => Err(Problem::invalid(with_found(refused, problem.violations().to_vec()))),
    }
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
    .ok_or_else(|| Problem::violation("eshop", "unknown_reference", "does not exist"))
}
