//! A test of a webhook: an event that nothing caused, through its lane like any other.

use serde_json::json;

use super::probe_now;
use crate::webhook::subscription;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{self, WebhookId};
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Sends a test (`POST /api/eshop-webhook/{id}/test`): a delivery of type `test`, regardless of the subscription. While
/// the webhook is inactive it is kept, as every delivery is.
///
/// It is due just before all other deliveries, so that the lane sends it first, also as the probe of a failing destination.
/// An ordered lane has it in its place.
pub async fn send_test(services: &Services, context: &Context, id: WebhookId) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let webhook = subscription::lock(&mut change, services, context.scope(), id).await?;
    let (event, delivery) = (ids::new_id(), ids::new_id());
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "webhook.test",
        subscription::ENTITY,
        None,
        "WITH hook AS (
             SELECT * FROM webhook WHERE id = $9
         ), tested AS (
             INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data, request_id, traceparent)
             SELECT $10, 'test', organisation_id, 'webhook', id,
                    jsonb_build_object('id', id, 'eshop', eshop_id, 'event', event), ($4::text[])[1], ($4::text[])[2]
             FROM hook
         ), sent AS (
             INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
             SELECT $11, id, eshop_id, $10,
                    CASE WHEN ordered THEN now() ELSE least(now(), (
                        SELECT d.next_attempt_at - interval '1 microsecond' FROM delivery d
                        WHERE d.webhook_id = hook.id ORDER BY d.next_attempt_at, d.id LIMIT 1)) END
             FROM hook
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('test', jsonb_build_array(NULL, $11::uuid)) AS changes, '{}'::jsonb AS data
             FROM hook
         )",
        id.get(),
        event,
        delivery,
    )
    .await?;
    change.note(recorded);
    probe_now(change.connection(), id).await?;
    if webhook.active {
        change.note_lanes([id]);
    }
    let body = json!({"id": delivery, "webhookId": event}).to_string();
    let answer = Answer::accepted(format!("/api/webhook-delivery/{delivery}"), body);
    change.answer(context.claim, answer).await
}
