//! What only carriers have (`docs/reference/carriers.md#carrier`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::list::fields::carrier::CARRIER;
use longshore_domain::shipping::carrier;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, JsonBody, May, Segment, permit};
use longshore_kernel::services::Services;

use crate::routes::view;

/// `GET /api/carrier/{id}`. Which organisations it shows depends on the caller.
pub async fn get_carrier(
    State(app): State<App>,
    may: May<permit::Read>,
    Id(id): Id,
) -> Result<Response, Failure> {
    Ok(view::record(&app, &CARRIER, may.scope(), id).await?)
}

/// `GET /api/carrier/code/{code}`.
pub async fn get_carrier_by_code(
    State(app): State<App>,
    may: May<permit::Read>,
    Segment(code): Segment,
) -> Result<Response, Failure> {
    let id = carrier::id_of_code(&app.services, &code).await?;
    Ok(view::record(&app, &CARRIER, may.scope(), id).await?)
}

/// `PUT /api/carrier/{id}/organisation-add`: a list of ids, all or nothing; 204.
pub async fn add_carrier_organisations(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteCarriers>,
    Id(id): Id,
    body: JsonBody,
) -> Result<Response, Failure> {
    Ok(view::answer(&carrier::set_organisations(&services, &may, id, body.value, true).await?)?)
}

/// `PUT /api/carrier/{id}/organisation-remove`: a list of ids, all or nothing; 204.
pub async fn remove_carrier_organisations(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteCarriers>,
    Id(id): Id,
    body: JsonBody,
) -> Result<Response, Failure> {
    Ok(view::answer(&carrier::set_organisations(&services, &may, id, body.value, false).await?)?)
}
