//! Reading webhooks and deliveries.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use longshore_domain::list::fields::delivery::DELIVERY;
use longshore_domain::list::fields::subscription::WEBHOOK;
use longshore_domain::webhook::delivery::search;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, ListRequest, May, permit};
use longshore_kernel::problem::{GONE, Problem};
use longshore_kernel::services::Services;

use crate::routes::{list, view};

/// `POST /api/eshop-webhook/list`.
pub async fn list_webhooks(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadOwnWebhooks>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &WEBHOOK, may.scope(), asked).await
}

/// `GET /api/eshop-webhook/{id}`.
pub async fn get_webhook(
    State(app): State<App>,
    may: May<permit::ReadOwnWebhooks>,
    Id(id): Id,
) -> Result<Response, Failure> {
    Ok(view::record(&app, &WEBHOOK, may.scope(), id).await?)
}

/// `POST /api/webhook-delivery/list`.
pub async fn list_deliveries(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadOwnWebhooks>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    list::answer(&services, &DELIVERY, may.scope(), asked).await
}

/// `GET /api/webhook-delivery/{id}`.
pub async fn get_delivery(
    State(app): State<App>,
    may: May<permit::ReadOwnWebhooks>,
    Id(id): Id,
) -> Result<Response, Failure> {
    Ok(view::record(&app, &DELIVERY, may.scope(), id).await?)
}

/// `GET /api/webhook-delivery/{id}/body`: the bytes that its attempts send.
pub async fn get_delivery_body(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadOwnWebhooks>,
    Id(id): Id,
) -> Result<Response, Failure> {
    let found = search::find(&services.db, may.scope(), id.into()).await?;
    let body = found.ok_or_else(|| Problem::not_found(DELIVERY.name))?.body();
    let body = body.ok_or_else(|| Problem::new(&GONE, "the event of this delivery was removed"))?;
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}
