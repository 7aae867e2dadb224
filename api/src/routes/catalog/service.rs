//! Product services (`docs/reference/products.md#product-services`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::catalog::product::service;
use longshore_http::extract::{Failure, Id, May, Segment, permit};
use longshore_kernel::services::Services;

use crate::routes::view;

/// `PUT /api/product/{id}/service/{service}`: switches it on; 204.
pub async fn add_product_service(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteServices>,
    Id(id): Id,
    Segment(name): Segment,
) -> Result<Response, Failure> {
    Ok(view::answer(&service::set_service(&services, &may, id, &name, true).await?)?)
}

/// `DELETE /api/product/{id}/service/{service}`: switches it off; 204.
pub async fn remove_product_service(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteServices>,
    Id(id): Id,
    Segment(name): Segment,
) -> Result<Response, Failure> {
    Ok(view::answer(&service::set_service(&services, &may, id, &name, false).await?)?)
}
