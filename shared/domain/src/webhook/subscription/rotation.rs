//! A new secret, beside which the old one signs for a while.
//!
//! Once it is shown, every call that begins bears both signatures. A lease signs with the secrets that it has read, so a
//! rotation fences it off without taking it away (what is under way would be sent twice): it counts itself in the lane,
//! under the lane's lock. No lease is granted, and none renewed unchanged, to a worker that has read the previous secrets.
//! Then it waits until the holder of the lane has confirmed that it begins no more calls: at most a second if it is alive,
//! and the duration of a lease if it is not. A process that is suspended in between, and continues after its lease, begins
//! no calls: it can only send those that it was just signing when it was suspended.

use super::{ENTITY, answer_with_secret, location, lock, secret_place, shown};
use crate::webhook::{lane, signature};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::WebhookId;
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Rotates the secret of a webhook (`PUT /api/eshop-webhook/{id}/rotate-secret`). It is shown in this answer, and in no
/// replay of it; the previous one also signs for [`signature::OVERLAP`].
pub async fn rotate_secret(services: &Services, context: &Context, id: WebhookId) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    lock(&mut change, services, context.scope(), id).await?;
    let live = sqlx::query_scalar!(
        r#"SELECT count(*) AS "live!" FROM webhook_former_secret WHERE webhook_id = $1 AND signs_until > now()"#,
        id.get(),
    )
    .fetch_one(change.connection())
    .await?;
    signature::check_rotation(live, "webhook")?;
    let secret = signature::new_secret();
    let sealed = services.vault.seal(&secret_place(id), &secret).map_err(Problem::internal)?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "webhook.rotate_secret",
        ENTITY,
        None,
        "WITH expired AS (
             DELETE FROM webhook_former_secret WHERE webhook_id = $9 AND signs_until <= now()
         ), former AS (
             INSERT INTO webhook_former_secret (webhook_id, secret, signs_until)
             SELECT id, secret, clock_timestamp() + make_interval(secs => $11) FROM webhook WHERE id = $9
         ), made AS (
             UPDATE webhook SET secret = $10, version = version + 1, rotations = rotations + 1 WHERE id = $9
             RETURNING id, version, changed_at, organisation_id
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('secret', jsonb_build_array('***', '***')) AS changes, '{}'::jsonb AS data
             FROM made
         )",
        id.get(),
        sealed,
        signature::OVERLAP.as_secs_f64(),
    )
    .await?;
    change.note(recorded);
    let held = fence(&mut change, id).await?;
    let webhook = shown(change.connection(), context.scope(), id).await?;
    let stored = Answer::updated(location(id), webhook.version, webhook.json);
    let answer = answer_with_secret(change, context, stored, &secret).await?;
    if let Some(token) = held {
        lane::until_ending(services, id, token).await;
    }
    Ok(answer)
}

/// Counts a rotation, or a deactivation, in the lane; returns the token of its holder.
pub(super) async fn fence(change: &mut Change<'_>, webhook: WebhookId) -> Result<Option<i64>, sqlx::Error> {
    let lane = sqlx::query!(
        r#"UPDATE webhook_lane SET rotations = rotations + 1 WHERE webhook_id = $1
           RETURNING token, leased_until >= clock_timestamp() AS "held!""#,
        webhook.get(),
    )
    .fetch_optional(change.connection())
    .await?;
    Ok(lane.filter(|lane| lane.held).map(|lane| lane.token))
}
