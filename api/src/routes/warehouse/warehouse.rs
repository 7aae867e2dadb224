//! Warehouses (`docs/reference/warehouses.md#warehouse`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::list::fields::warehouse::WAREHOUSE;
use longshore_domain::warehouse::warehouse::Warehouse;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfMatch, IfNoneMatch, JsonBody, May, Once, permit};
use longshore_kernel::services::Services;

use crate::routes::{edit, view};

/// `POST /api/warehouse`: 201 with the record.
pub async fn create_warehouse(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteOrganisations>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::create::<Warehouse>(&services, &may, &once, body).await
}

/// `GET /api/warehouse/{id}`.
pub async fn get_warehouse(
    State(app): State<App>,
    may: May<permit::Read>,
    Id(id): Id,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    Ok(view::versioned(&app, &WAREHOUSE, may.scope(), id, &if_none_match).await?)
}

/// `PUT /api/warehouse/{id}`: changes the given fields; 200 with the record.
pub async fn update_warehouse(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteOrganisations>,
    Id(id): Id,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::update::<Warehouse>(&services, &may, id, &if_match, body).await
}
