//! Creates, changes and deletes orders.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::expedition::together::Batcher;
use longshore_domain::expedition::{edit, progress};
use longshore_http::extract::{Failure, Id, IfMatch, JsonBody, May, Once, permit};
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::services::Services;

use crate::routes::view;

/// `POST /api/expedition`: 201 with the record.
pub async fn create_expedition(
    State(services): State<Arc<Services>>,
    State(orders): State<Batcher>,
    may: May<permit::WriteExpeditions>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &body.hash, async |context| {
        orders.create(&services, context, body.value).await
    })
    .await
}

/// `PUT /api/expedition/{id}`: 200 with the record.
pub async fn update_expedition(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteExpeditions>,
    Id(id): Id<ExpeditionId>,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&edit::update(&services, &may, id, body.value, check).await?)?)
}

/// `PATCH /api/expedition/{id}`: 200 with the record.
pub async fn patch_expedition(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteExpeditions>,
    Id(id): Id<ExpeditionId>,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&edit::patch(&services, &may, id, body.value, check).await?)?)
}

/// `DELETE /api/expedition/{id}`: 204.
pub async fn delete_expedition(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteExpeditions>,
    Id(id): Id<ExpeditionId>,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&edit::delete(&services, &may, id, check).await?)?)
}

/// `PUT /api/expedition/{id}/status`: 200 with the record.
pub async fn report_expedition(
    State(services): State<Arc<Services>>,
    may: May<permit::ReportExpeditions>,
    Id(id): Id<ExpeditionId>,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&progress::report(&services, &may, id, body.value, check).await?)?)
}
