//! Orders that only a warehouse has (`docs/reference/orders.md#lost-orders`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::expedition::news::lost;
use longshore_domain::list::fields::lost_order::LOST_ORDER;
use longshore_http::extract::{Failure, Id, ListRequest, May, permit};
use longshore_kernel::services::Services;

use crate::routes::{list, view};

/// `POST /api/lost-order/list`.
pub async fn list_lost_orders(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadWmsSettings>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &LOST_ORDER, may.scope(), asked).await
}

/// `DELETE /api/lost-order/{id}`: 204.
pub async fn dismiss_lost_order(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteWmsSettings>,
    Id(id): Id,
) -> Result<Response, Failure> {
    Ok(view::answer(&lost::dismiss(&services, &may, id).await?)?)
}
