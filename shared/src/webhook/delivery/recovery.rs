//! Recovering: everything that did not succeed since a time is sent again, each event once.

use serde_json::{Value, json};
use uuid::Uuid;

use super::probe_now;
use crate::platform::answer::Answer;
use crate::platform::change::Change;
use crate::platform::context::Context;
use crate::platform::input::{self, Reader};
use crate::platform::problem::Problem;
use crate::platform::services::Services;
use crate::record_change;
use crate::webhook::subscription;

/// Recovers a webhook (`POST /api/eshop-webhook/{id}/recover {"since"}`); the answer says how many deliveries are on their
/// way for it:
///
/// - what has ended without success since then gets a new delivery of the same event, one however often it was tried, and
///   none where a later redelivery succeeded, or is on its way, or the event is no longer kept;
/// - what waits to be tried again is due now.
pub async fn recover(
    services: &Services,
    context: &Context,
    id: Uuid,
    body: Value,
) -> Result<Answer, Problem> {
    let since = Reader::read(body, |reader, body| {
        let mut object = reader.object(body)?;
        let since = object.required("since", input::timestamp);
        object.finish();
        since
    })?;
    let mut change = Change::begin(services).await?;
    // whoever recovers at the same time, or sends again by hand, waits here: nothing is made twice
    let webhook = subscription::lock(&mut change, services, context.scope(), id).await?;
    let count = sqlx::query_scalar!(
        r#"WITH on_the_way AS MATERIALIZED (
               SELECT event_id FROM delivery WHERE webhook_id = $1 AND redelivery_of IS NOT NULL
           ), failed AS (
               SELECT DISTINCT ON (h.event_id) h.event_id, h.id
               FROM delivery_history h
               WHERE h.webhook_id = $1 AND h.state <> 'delivered' AND h.finished_at >= $2
                 AND h.event_id NOT IN (SELECT event_id FROM on_the_way)
                 AND NOT EXISTS (
                     SELECT FROM delivery_history d
                     WHERE d.webhook_id = $1 AND d.event_id = h.event_id AND d.redelivery_of IS NOT NULL
                       AND d.state = 'delivered')
                 AND EXISTS (SELECT FROM event e WHERE e.id = h.event_id)
               ORDER BY h.event_id, h.id DESC
           ), in_order AS (
               -- due at once, and one behind the other, in the order of the events
               SELECT event_id, id,
                      now() - interval '1 microsecond' * row_number() OVER (ORDER BY event_id DESC) AS due_at
               FROM failed
           ), made AS (
               INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, redelivery_of, created_at)
               SELECT uuid_v7(), $1, w.eshop_id, o.event_id, o.due_at, o.id, o.due_at
               FROM in_order o CROSS JOIN webhook w WHERE w.id = $1
               RETURNING 1
           ), hastened AS (
               UPDATE delivery SET next_attempt_at = now()
               WHERE id IN (
                   SELECT id FROM delivery
                   WHERE webhook_id = $1 AND attempt_count > 0 AND next_attempt_at > now()
                   FOR UPDATE SKIP LOCKED)
               RETURNING 1
           )
           SELECT (SELECT count(*) FROM made) + (SELECT count(*) FROM hastened) AS "count!""#,
        id,
        since,
    )
    .fetch_one(change.connection())
    .await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "webhook.recover",
        subscription::ENTITY,
        "",
        "WITH changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('recoveredSince', jsonb_build_array(NULL, $10::timestamptz),
                        'deliveries', jsonb_build_array(NULL, $11::bigint)) AS changes,
                    '{}'::jsonb AS data
             FROM webhook WHERE id = $9
         )",
        id,
        since,
        count,
    )
    .await?;
    change.note(recorded);
    probe_now(change.connection(), id).await?;
    if webhook.active {
        change.note_lanes([id]);
    }
    let body = json!({"count": count}).to_string();
    let answer = Answer { status: 202, location: None, etag: None, body: Some(body), job: None };
    change.answer(context.claim, answer).await
}
