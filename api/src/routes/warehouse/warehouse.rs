//! Warehouses (specification, part 4; decisions, section 4).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_shared::platform::services::Services;
use longshore_shared::warehouse::warehouse::Warehouse;
use longshore_shared::warehouse::warehouse::fields::WAREHOUSE;

use crate::app::App;
use crate::extract::{Failure, Id, IfMatch, JsonBody, May, Once, permit};
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
) -> Result<Response, Failure> {
    Ok(view::record(&app, &WAREHOUSE, may.scope(), id).await?)
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
