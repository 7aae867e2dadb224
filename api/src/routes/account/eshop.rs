//! E-shops (`docs/reference/organisations.md#e-shop`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::account::eshop::Eshop;
use longshore_domain::list::fields::eshop::ESHOP;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfMatch, IfNoneMatch, JsonBody, May, Once, permit};
use longshore_kernel::services::Services;

use crate::routes::{edit, view};

/// `POST /api/eshop`: 201 with the record.
pub async fn create_eshop(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteEshops>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::create::<Eshop>(&services, &may, &once, body).await
}

/// `GET /api/eshop/{id}`.
pub async fn get_eshop(
    State(app): State<App>,
    may: May<permit::Read>,
    Id(id): Id,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    Ok(view::versioned(&app, &ESHOP, may.scope(), id, &if_none_match).await?)
}

/// `PUT /api/eshop/{id}`: changes the given fields; 200 with the record.
pub async fn update_eshop(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteEshops>,
    Id(id): Id,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    edit::update::<Eshop>(&services, &may, id, &if_match, body).await
}
