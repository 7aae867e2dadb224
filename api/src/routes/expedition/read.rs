//! Reads of orders, items, reservations and stock movements.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::list::fields::expedition::EXPEDITION;
use longshore_domain::list::fields::expedition_item::{EXPEDITION_ITEM, RESERVATION};
use longshore_domain::list::fields::movement::STOCK_MOVEMENT;
use longshore_domain::list::fields::receipt::{INBOUND_RECEIPT, OUTBOUND_RECEIPT};
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, ListRequest, May, permit};
use longshore_kernel::services::Services;

use crate::routes::{list, view};

/// `POST /api/expedition/list`.
pub async fn list_expeditions(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadExpeditions>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &EXPEDITION, may.scope(), asked).await
}

/// `GET /api/expedition/{id}`.
pub async fn get_expedition(
    State(app): State<App>,
    may: May<permit::ReadExpeditions>,
    Id(id): Id,
) -> Result<Response, Failure> {
    // its hand-over and what it waits for change without a new version
    Ok(view::record(&app, &EXPEDITION, may.scope(), id).await?)
}

/// `POST /api/expedition-item/list`.
pub async fn list_expedition_items(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadExpeditions>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &EXPEDITION_ITEM, may.scope(), asked).await
}

/// `POST /api/reservation/list`.
pub async fn list_reservations(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadExpeditions>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &RESERVATION, may.scope(), asked).await
}

/// `POST /api/outbound-receipt/list`.
pub async fn list_outbound_receipts(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadExpeditions>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &OUTBOUND_RECEIPT, may.scope(), asked).await
}

/// `POST /api/inbound-receipt/list`.
pub async fn list_inbound_receipts(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadExpeditions>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &INBOUND_RECEIPT, may.scope(), asked).await
}

/// `POST /api/stock-movement/list`.
pub async fn list_stock_movements(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadExpeditions>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &STOCK_MOVEMENT, may.scope(), asked).await
}
