//! `/api/webhook-delivery`: what was sent, and sending it again.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_shared::platform::crypto::sha256;
use longshore_shared::platform::services::Services;
use longshore_shared::webhook::delivery;

use crate::extract::{Failure, Id, JsonBody, May, Once, permit};
use crate::routes::view;

/// `PUT /api/webhook-delivery/redeliver/{id}`: sends one again.
pub async fn redeliver_delivery(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteWebhooks>,
    Id(id): Id,
    once: Once,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &sha256(b""), async |context| {
        delivery::redeliver(&services, context, id).await
    })
    .await
}

/// `PUT /api/webhook-delivery/redeliver`: sends several again, all or none.
pub async fn redeliver_deliveries(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteWebhooks>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &body.hash, async |context| {
        delivery::redeliver_many(&services, context, body.value).await
    })
    .await
}
