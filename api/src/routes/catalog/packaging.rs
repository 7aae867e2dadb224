//! Packaging options (`docs/reference/products.md#packaging-options`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::catalog::packaging::PackagingOption;
use longshore_domain::list::fields::packaging::PACKAGING_OPTION;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfNoneMatch, JsonBody, May, Once, OptionalJson, permit};
use longshore_kernel::services::Services;

use crate::routes::{edit, list, view};

/// `POST /api/packaging-option`: 201 with the record.
pub async fn create_packaging_option(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteOrganisations>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::create::<PackagingOption>(&services, &may, &once, body).await
}

/// `GET /api/packaging-option/{id}`.
pub async fn get_packaging_option(
    State(app): State<App>,
    may: May<permit::Read>,
    Id(id): Id,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    Ok(view::versioned(&app, &PACKAGING_OPTION, may.scope(), id, &if_none_match).await?)
}

/// `POST /api/packaging-option/list`.
pub async fn list_packaging_options(
    State(services): State<Arc<Services>>,
    may: May<permit::Read>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    list::answer(&services, &PACKAGING_OPTION, may.scope(), body).await
}
