//! Wms (`docs/reference/warehouses.md#wms`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::list::fields::wms::WMS;
use longshore_domain::warehouse::wms::Wms;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfMatch, IfNoneMatch, JsonBody, May, Once, permit};
use longshore_kernel::services::Services;

use crate::routes::{edit, view};

/// `POST /api/wms`: 201 with the record.
pub async fn create_wms(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteEshops>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::create::<Wms>(&services, &may, &once, body).await
}

/// `GET /api/wms/{id}`.
pub async fn get_wms(
    State(app): State<App>,
    may: May<permit::Read>,
    Id(id): Id,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    Ok(view::versioned(&app, &WMS, may.scope(), id, &if_none_match).await?)
}

/// `PUT /api/wms/{id}`: changes the given fields; 200 with the record.
pub async fn update_wms(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteEshops>,
    Id(id): Id,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::update::<Wms>(&services, &may, id, &if_match, body).await
}
