//! Carrier services (`docs/reference/carriers.md#carrier-service`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::list::fields::service::CARRIER_SERVICE;
use longshore_domain::shipping::service::CarrierService;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfMatch, IfNoneMatch, JsonBody, May, Once, OptionalJson, permit};
use longshore_kernel::services::Services;

use crate::routes::{edit, list, view};

/// `POST /api/carrier-service`: 201 with the record.
pub async fn create_carrier_service(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteCarriers>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::create::<CarrierService>(&services, &may, &once, body).await
}

/// `GET /api/carrier-service/{id}`.
pub async fn get_carrier_service(
    State(app): State<App>,
    may: May<permit::Read>,
    Id(id): Id,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    Ok(view::versioned(&app, &CARRIER_SERVICE, may.scope(), id, &if_none_match).await?)
}

/// `PUT /api/carrier-service/{id}`: changes the given fields; 200 with the record.
pub async fn update_carrier_service(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteCarriers>,
    Id(id): Id,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::update::<CarrierService>(&services, &may, id, &if_match, body).await
}

/// `POST /api/carrier-service/list`.
pub async fn list_carrier_services(
    State(services): State<Arc<Services>>,
    may: May<permit::Read>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    list::answer(&services, &CARRIER_SERVICE, may.scope(), body).await
}
