//! `/api/webhook-delivery`: deliveries, and sending them again.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, JsonBody, May, Once, Prefer, permit};
use longshore_shared::kernel::crypto::sha256;
use longshore_shared::kernel::ids::DeliveryId;
use longshore_shared::kernel::services::Services;
use longshore_shared::webhook::delivery;

use crate::routes::catalog::switch::BODY_LIMIT;
use crate::routes::job::answer::{Patience, answer};
use crate::routes::view;

/// `PUT /api/webhook-delivery/redeliver/{id}`: sends one again.
pub async fn redeliver_delivery(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteWebhooks>,
    Id(id): Id<DeliveryId>,
    once: Once,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &sha256(b""), async |context| {
        delivery::redeliver(&services, context, id).await
    })
    .await
}

/// `PUT /api/webhook-delivery/redeliver`: starts a job that sends many again.
pub async fn redeliver_deliveries(
    State(app): State<App>,
    may: May<permit::WriteWebhooks>,
    once: Once,
    prefer: Prefer,
    body: JsonBody<BODY_LIMIT>,
) -> Result<Response, Failure> {
    let answered = once
        .answer(&app.services, may.0.clone(), &body.hash, async |context| {
            delivery::redeliver_many(&app.services, context, body.value).await
        })
        .await?;
    answer(&app, &may, answered, prefer, Patience::LATER).await
}
