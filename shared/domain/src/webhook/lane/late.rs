//! Outcomes that come after the deletion of their webhook.
//!
//! A deletion waits until no call can begin, and not for the end of calls that have begun. It cancels their deliveries; what became of
//! them is added to the history, so that it does not say of a delivery that it was never tried.

use std::collections::HashSet;

use super::outcome::{End, Outcome, Reported};
use longshore_kernel::ids::{DeliveryId, WebhookId};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Adds what became of calls whose lease ended with their webhook; the others that are stale are left, because they are sent again.
pub(super) async fn record(
    services: &Services,
    outcomes: &[Outcome],
    reported: &[Reported],
) -> Result<(), Problem> {
    let stale: HashSet<(WebhookId, i64)> =
        reported.iter().filter(|report| report.stale).map(|report| (report.webhook, report.token)).collect();
    if stale.is_empty() {
        return Ok(());
    }
    let mut called: Vec<&Outcome> = outcomes
        .iter()
        .filter(|outcome| outcome.attempt.is_some() && stale.contains(&(outcome.webhook, outcome.token)))
        .collect();
    // rows are locked in the order of their keys
    called.sort_unstable_by_key(|outcome| outcome.delivery);
    let deliveries: Vec<DeliveryId> = called.iter().map(|outcome| outcome.delivery).collect();
    let webhooks: Vec<WebhookId> = called.iter().map(|outcome| outcome.webhook).collect();
    let delivered: Vec<bool> = called.iter().map(|outcome| outcome.end == End::Delivered).collect();
    let attempts = called.iter().map(|outcome| serde_json::to_string(&outcome.attempt.as_slice()));
    let attempts = attempts.collect::<Result<Vec<_>, _>>().map_err(Problem::internal)?;
    sqlx::query!(
        "WITH given AS MATERIALIZED (
             SELECT g.id, g.delivered, g.attempts::jsonb AS attempts, (g.attempts::jsonb -> 0 ->> 'number')::int AS number
             FROM unnest($1::uuid[], $2::uuid[], $3::bool[], $4::text[]) AS g (id, webhook_id, delivered, attempts)
             WHERE NOT EXISTS (SELECT FROM webhook w WHERE w.id = g.webhook_id)
         ), waits AS (
             -- the deletion is about to cancel it
             UPDATE delivery d SET attempts = d.attempts || given.attempts, attempt_count = given.number
             FROM given WHERE d.id = given.id AND d.attempt_count = given.number - 1
         )
         UPDATE delivery_history h
         SET attempts = h.attempts || given.attempts, attempt_count = given.number,
             state = CASE WHEN given.delivered THEN 'delivered' ELSE h.state END,
             finished_at = CASE WHEN given.delivered THEN now() ELSE h.finished_at END
         FROM given WHERE h.id = given.id AND h.state = 'cancelled' AND h.attempt_count = given.number - 1",
        &deliveries as &[DeliveryId],
        &webhooks as &[WebhookId],
        &delivered,
        &attempts,
    )
    .execute(&services.db.main)
    .await?;
    Ok(())
}
