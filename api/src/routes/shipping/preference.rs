//! Carrier preferences (`docs/reference/carriers.md#carrier-preference`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::list::fields::preference::CARRIER_PREFERENCE;
use longshore_domain::shipping::preference::{self, CarrierPreference};
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfMatch, IfNoneMatch, JsonBody, May, Once, OptionalJson, permit};
use longshore_kernel::services::Services;

use crate::routes::{edit, list, view};

/// `POST /api/carrier-preference`: 201 with the record.
pub async fn create_carrier_preference(
    State(services): State<Arc<Services>>,
    may: May<permit::WritePreferences>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::create::<CarrierPreference>(&services, &may, &once, body).await
}

/// `GET /api/carrier-preference/{id}`.
pub async fn get_carrier_preference(
    State(app): State<App>,
    may: May<permit::Read>,
    Id(id): Id,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    Ok(view::versioned(&app, &CARRIER_PREFERENCE, may.scope(), id, &if_none_match).await?)
}

/// `PUT /api/carrier-preference/{id}`: changes the given fields; 200 with the record.
pub async fn update_carrier_preference(
    State(services): State<Arc<Services>>,
    may: May<permit::WritePreferences>,
    Id(id): Id,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::update::<CarrierPreference>(&services, &may, id, &if_match, body).await
}

/// `DELETE /api/carrier-preference/{id}`: 204.
pub async fn delete_carrier_preference(
    State(services): State<Arc<Services>>,
    may: May<permit::WritePreferences>,
    Id(id): Id,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&preference::delete(&services, &may, id, check).await?)?)
}

/// `POST /api/carrier-preference/list`.
pub async fn list_carrier_preferences(
    State(services): State<Arc<Services>>,
    may: May<permit::Read>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    list::answer(&services, &CARRIER_PREFERENCE, may.scope(), body).await
}
