//! `/api/webhook-delivery`: deliveries, and sending them again.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::webhook::delivery::{self, replay};
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, JsonBody, May, Once, Prefer, permit};
use longshore_kernel::crypto::sha256;
use longshore_kernel::ids::DeliveryId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

use crate::routes::job::answer::accepted;
use crate::routes::job::chosen::BODY_LIMIT;
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
    accepted(&app, &may, &once, prefer, &body.hash, async |context| {
        delivery::redeliver_many(&app.services, context, body.value).await
    })
    .await
}

/// `POST /api/webhook-delivery/replay/count`: what a replay would find.
pub async fn count_replay(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadWebhooks>,
    body: JsonBody,
) -> Result<Response, Failure> {
    let count = replay::count(&services, may.scope(), body.value).await?;
    Ok(view::json(serde_json::to_string(&count).map_err(Problem::internal)?))
}

/// `POST /api/webhook-delivery/replay`: starts a job that sends again what matches at several webhooks.
pub async fn replay_deliveries(
    State(app): State<App>,
    may: May<permit::WriteWebhooks>,
    once: Once,
    prefer: Prefer,
    body: JsonBody,
) -> Result<Response, Failure> {
    accepted(&app, &may, &once, prefer, &body.hash, async |context| {
        replay::replay(&app.services, context, body.value).await
    })
    .await
}
