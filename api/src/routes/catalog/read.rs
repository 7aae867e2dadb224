//! Reading products.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfNoneMatch, ListRequest, May, permit};
use longshore_kernel::services::Services;

use crate::routes::{list, view};

/// `POST /api/product/list`.
pub async fn list_products(
    State(services): State<Arc<Services>>,
    may: May<permit::Read>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &PRODUCT, may.scope(), asked).await
}

/// `GET /api/product/{id}`.
pub async fn get_product(
    State(app): State<App>,
    may: May<permit::Read>,
    Id(id): Id,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    Ok(view::versioned(&app, &PRODUCT, may.scope(), id, &if_none_match).await?)
}
