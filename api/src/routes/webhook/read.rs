//! Reading webhooks and deliveries.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, May, OptionalJson, permit};
use longshore_shared::kernel::services::Services;
use longshore_shared::list::fields::delivery::DELIVERY;
use longshore_shared::list::fields::subscription::WEBHOOK;

use crate::routes::{list, view};

/// `POST /api/eshop-webhook/list`.
pub async fn list_webhooks(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadWebhooks>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    list::answer(&services, &WEBHOOK, may.scope(), body).await
}

/// `GET /api/eshop-webhook/{id}`.
pub async fn get_webhook(
    State(app): State<App>,
    may: May<permit::ReadWebhooks>,
    Id(id): Id,
) -> Result<Response, Failure> {
    Ok(view::record(&app, &WEBHOOK, may.scope(), id).await?)
}

/// `POST /api/webhook-delivery/list`.
pub async fn list_deliveries(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadWebhooks>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    list::answer(&services, &DELIVERY, may.scope(), body).await
}

/// `GET /api/webhook-delivery/{id}`.
pub async fn get_delivery(
    State(app): State<App>,
    may: May<permit::ReadWebhooks>,
    Id(id): Id,
) -> Result<Response, Failure> {
    Ok(view::record(&app, &DELIVERY, may.scope(), id).await?)
}
