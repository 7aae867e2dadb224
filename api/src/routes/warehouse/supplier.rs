//! Suppliers (`docs/reference/warehouses.md#supplier`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::list::fields::supplier::SUPPLIER;
use longshore_domain::warehouse::supplier::Supplier;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfMatch, IfNoneMatch, JsonBody, May, Once, OptionalJson, permit};
use longshore_kernel::services::Services;

use crate::routes::{edit, list, view};

/// `POST /api/supplier`: 201 with the record.
pub async fn create_supplier(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAdvices>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::create::<Supplier>(&services, &may, &once, body).await
}

/// `GET /api/supplier/{id}`.
pub async fn get_supplier(
    State(app): State<App>,
    may: May<permit::Read>,
    Id(id): Id,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    Ok(view::versioned(&app, &SUPPLIER, may.scope(), id, &if_none_match).await?)
}

/// `PUT /api/supplier/{id}`: changes the given fields; 200 with the record.
pub async fn update_supplier(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAdvices>,
    Id(id): Id,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::update::<Supplier>(&services, &may, id, &if_match, body).await
}

/// `POST /api/supplier/list`.
pub async fn list_suppliers(
    State(services): State<Arc<Services>>,
    may: May<permit::Read>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    list::answer(&services, &SUPPLIER, may.scope(), body).await
}
