//! Rotation: of the secret of a webhook (`calling::secret`), and of the keys that seal it.

use super::stored::{authentication_place, location, lock, secret_place, shown};
use crate::calling::secret;
use crate::webhook::lane;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::WebhookId;
use longshore_kernel::problem::Problem;
use longshore_kernel::resealing::SealedTable;
use longshore_kernel::sealed_table;
use longshore_kernel::services::Services;

secret::signing!(
    WebhookId,
    "webhook",
    secret_place,
    "webhook",
    "id",
    "webhook_former_secret",
    "webhook_lane",
    "webhook_id"
);

/// Rotates the secret of a webhook (`PUT /api/eshop-webhook/{id}/rotate-secret`). It is shown in this answer, and in no
/// replay of it.
pub async fn rotate_secret(services: &Services, context: &Context, id: WebhookId) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    lock(&mut change, context.scope(), id).await?;
    let rotated = secret::rotate(&mut change, context, id).await?;
    let webhook = shown(change.connection(), context.scope(), id).await?;
    let stored = Answer::updated(location(id), webhook.version, webhook.json);
    let answer = rotated.answer(change, context, stored).await?;
    if let Some(token) = rotated.held {
        lane::until_ending(services, id, token).await;
    }
    Ok(answer)
}

/// The secrets and authentications of webhooks.
pub const SEALED: SealedTable = sealed_table!(
    "webhook",
    "id",
    ["secret" => secret_place, "authentication" => authentication_place],
    |id, error| tracing::warn!(webhook.id = %id, %error, "the stored secrets of a webhook cannot be read")
);

/// Their secrets that were rotated away and still sign.
pub const SEALED_FORMER: SealedTable = sealed_table!(
    "webhook_former_secret" examined "signs_until > now()",
    "webhook_id",
    ["secret" => secret_place],
    |id, error| tracing::warn!(webhook.id = %id, %error, "a former secret of a webhook cannot be read")
);
