//! `/api/stock-advice`: announced goods (`docs/reference/warehouses.md#stock-advice`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::list::fields::stock_advice::STOCK_ADVICE;
use longshore_domain::warehouse::stock_advice::{create, end, receive};
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfMatch, IfNoneMatch, JsonBody, ListRequest, May, Once, permit};
use longshore_kernel::crypto::sha256;
use longshore_kernel::ids::StockAdviceId;
use longshore_kernel::services::Services;

use crate::routes::{list, view};

/// `POST /api/stock-advice`: 201 with the record.
pub async fn create_stock_advice(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAdvices>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &body.hash, async |context| {
        create::create(&services, context, body.value).await
    })
    .await
}

/// `POST /api/stock-advice/list`.
pub async fn list_stock_advices(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadAdvices>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &STOCK_ADVICE, may.scope(), asked).await
}

/// `GET /api/stock-advice/{id}`.
pub async fn get_stock_advice(
    State(app): State<App>,
    may: May<permit::ReadAdvices>,
    Id(id): Id<StockAdviceId>,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    Ok(view::versioned(&app, &STOCK_ADVICE, may.scope(), id, &if_none_match).await?)
}

/// `PUT /api/stock-advice/{id}/receive`: 200 with the record; 409 if it has ended.
pub async fn receive_stock_advice(
    State(services): State<Arc<Services>>,
    may: May<permit::ReceiveAdvices>,
    Id(id): Id<StockAdviceId>,
    once: Once,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    view::once(&once, &services, may.0, &body.hash, async |context| {
        receive::receive(&services, context, id, body.value, check).await
    })
    .await
}

/// `PUT /api/stock-advice/{id}/cancel`: 200 with the record; 409 if it has ended.
pub async fn cancel_stock_advice(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteAdvices>,
    Id(id): Id<StockAdviceId>,
    once: Once,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    view::once(&once, &services, may.0, &sha256(b""), async |context| {
        end::cancel(&services, context, id, check).await
    })
    .await
}
