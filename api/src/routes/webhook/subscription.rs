//! `/api/eshop-webhook`: the subscriptions.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::webhook::{delivery, subscription};
use longshore_http::app::App;
use longshore_http::extract::{Failure, Id, IfMatch, JsonBody, May, Once, OptionalJson, Prefer, permit};
use longshore_kernel::crypto::sha256;
use longshore_kernel::ids::WebhookId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

use crate::routes::job::answer::accepted;
use crate::routes::view;

/// `POST /api/eshop-webhook`: the only answer that contains the secret.
pub async fn create_webhook(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteOwnWebhooks>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &body.hash, async |context| {
        subscription::create(&services, context, body.value).await
    })
    .await
}

/// `POST /api/eshop-webhook/try`: what a webhook would have been told of.
pub async fn try_webhook(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadOwnWebhooks>,
    body: JsonBody,
) -> Result<Response, Failure> {
    let tried = subscription::try_out(&services, may.scope(), body.value).await?;
    Ok(view::json(serde_json::to_string(&tried).map_err(Problem::internal)?))
}

/// `PUT /api/eshop-webhook/{id}`: changes the given fields.
pub async fn update_webhook(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteOwnWebhooks>,
    Id(id): Id<WebhookId>,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&subscription::update(&services, &may, id, body.value, check).await?)?)
}

/// `DELETE /api/eshop-webhook/{id}`: also cancels its pending deliveries.
pub async fn delete_webhook(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteOwnWebhooks>,
    Id(id): Id<WebhookId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&subscription::delete(&services, &may, id).await?)?)
}

/// `PUT /api/eshop-webhook/activate/{id}`: sends the deliveries that were kept.
pub async fn activate_webhook(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteOwnWebhooks>,
    Id(id): Id<WebhookId>,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&subscription::set_active_if(&services, &may, id, true, check).await?)?)
}

/// `PUT /api/eshop-webhook/deactivate/{id}`: from now on deliveries are kept.
pub async fn deactivate_webhook(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteOwnWebhooks>,
    Id(id): Id<WebhookId>,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&subscription::set_active_if(&services, &may, id, false, check).await?)?)
}

/// `PUT /api/eshop-webhook/{id}/rotate-secret`: the only answer with the new secret; the old one signs for
/// one more day.
pub async fn rotate_webhook_secret(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteOwnWebhooks>,
    Id(id): Id<WebhookId>,
    once: Once,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &sha256(b""), async |context| {
        subscription::rotate_secret(&services, context, id).await
    })
    .await
}

/// `POST /api/eshop-webhook/{id}/test`: a delivery of an example; the body may be absent.
pub async fn test_webhook(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteOwnWebhooks>,
    Id(id): Id<WebhookId>,
    once: Once,
    body: OptionalJson,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &body.hash(), async |context| {
        delivery::send_test(&services, context, id, body.0).await
    })
    .await
}

/// `POST /api/eshop-webhook/{id}/recover`: starts a job that sends everything again that did not succeed
/// since a time.
pub async fn recover_webhook(
    State(app): State<App>,
    may: May<permit::WriteOwnWebhooks>,
    Id(id): Id<WebhookId>,
    once: Once,
    prefer: Prefer,
    body: JsonBody,
) -> Result<Response, Failure> {
    accepted(&app, &may, &once, prefer, &body.hash, async |context| {
        delivery::recover(&app.services, context, id, body.value).await
    })
    .await
}
