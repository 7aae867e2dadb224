//! Single products (`docs/reference/products.md#product`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::catalog::product::together::Batcher;
use longshore_domain::catalog::product::{activation, create, update};
use longshore_http::extract::{Failure, Id, IfMatch, JsonBody, May, Once, permit};
use longshore_kernel::answer::Answer;
use longshore_kernel::context::Context;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;
use uuid::Uuid;

use crate::routes::view;

/// `POST /api/product`: 201 with the record.
pub async fn create_product(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteProducts>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0.clone(), &body.hash, async |context| {
        create::create(&services, context, body.value).await
    })
    .await
}

/// `PUT /api/product/{id}`: 200 with the record.
pub async fn update_product(
    State(services): State<Arc<Services>>,
    State(together): State<Batcher>,
    may: May<permit::WriteProducts>,
    Id(id): Id,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    let answer =
        update::update(&services, &together, &may, id, body.value, |version| if_match.check(version)).await?;
    Ok(view::answer(&answer)?)
}

/// `PUT /api/product/activate/{id}`, and `/api/product/{id}/activate`: 204.
pub async fn activate_product(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteProducts>,
    Id(id): Id,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    Ok(view::answer(&set_active(&services, &may, id, true, &if_match).await?)?)
}

/// `PUT /api/product/deactivate/{id}`, and `/api/product/{id}/deactivate`: 204.
pub async fn deactivate_product(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteProducts>,
    Id(id): Id,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    Ok(view::answer(&set_active(&services, &may, id, false, &if_match).await?)?)
}

async fn set_active(
    services: &Services,
    context: &Context,
    id: Uuid,
    active: bool,
    if_match: &IfMatch,
) -> Result<Answer, Problem> {
    if if_match.is_given() {
        activation::set_active_if(services, context, id, active, |version| if_match.check(version)).await
    } else {
        activation::set_active(services, context, id, active).await
    }
}
