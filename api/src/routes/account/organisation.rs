//! Organisations (`docs/reference/organisations.md#organisation`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::account::organisation::Organisation;
use longshore_domain::list::fields::organisation::ORGANISATION;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfMatch, IfNoneMatch, JsonBody, May, Once, permit};
use longshore_kernel::services::Services;

use crate::routes::{edit, view};

/// `POST /api/organisation`: 201 with the record.
pub async fn create_organisation(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteOrganisations>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::create::<Organisation>(&services, &may, &once, body).await
}

/// `GET /api/organisation/{id}`.
pub async fn get_organisation(
    State(app): State<App>,
    may: May<permit::Read>,
    Id(id): Id,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    Ok(view::versioned(&app, &ORGANISATION, may.scope(), id, &if_none_match).await?)
}

/// `PUT /api/organisation/{id}`: changes the given fields; 200 with the record.
pub async fn update_organisation(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteOrganisations>,
    Id(id): Id,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::update::<Organisation>(&services, &may, id, &if_match, body).await
}
