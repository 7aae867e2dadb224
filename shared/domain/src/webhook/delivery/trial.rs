//! A test of a webhook: an example of an event, which nothing caused, through its lane like any other.

use std::time::Duration;

use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use crate::webhook::event::{NAMES, TEST, example};
use crate::webhook::lane::end_wait;
use crate::webhook::subscription::stored;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{DeliveryId, EventId, WebhookId};
use longshore_kernel::input::{Reader, Rule, object, one_of};
use longshore_kernel::problem::{Problem, RATE_LIMITED};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Tests of a webhook in a minute: each is sent before all else that is due.
pub const TESTS_A_MINUTE: i64 = 60;

/// The audited action.
const ACTION: &str = "webhook.test";

/// The body of a test: the type of the event, which is `test` without one.
pub fn test_body() -> impl Rule<Out = &'static str> {
    object(|object| Some(object.optional_or("event", one_of(NAMES), TEST.name)))
}

/// Sends a test (`POST /api/eshop-webhook/{id}/test {"event"}`): a delivery of an example of that type, regardless of the
/// subscription. While the webhook is inactive it is kept, as every delivery is.
///
/// It is due just before all other deliveries, so that the lane sends it first, also as the probe of a failing destination.
/// An ordered lane has it in its place.
pub async fn send_test(
    services: &Services,
    context: &Context,
    id: WebhookId,
    body: Option<Value>,
) -> Result<Answer, Problem> {
    let kind = Reader::read(body.unwrap_or_else(|| Value::Object(Map::new())), test_body())?;
    let mut change = Change::begin(services).await?;
    let webhook = stored::lock(&mut change, context.scope(), id).await?;
    must_not_be_too_many(change.connection(), id).await?;
    let (event, delivery) = (EventId::new(), DeliveryId::new());
    let recorded = record_change!(
        change.connection(),
        context.origin,
        ACTION,
        stored::ENTITY,
        None,
        "WITH hook AS (
             SELECT * FROM webhook WHERE id = $9
         ), tested AS (
             INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data, eshops, request_id, traceparent)
             SELECT $10, $12, organisation_id, $7, id, $13::jsonb, $14, ($4::text[])[1], ($4::text[])[2]
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
                    jsonb_build_object('test', jsonb_build_array(NULL, $11::uuid),
                        'event', jsonb_build_array(NULL, $12::text)) AS changes,
                    '{}'::jsonb AS data
             FROM hook
         )",
        id.get(),
        event.get(),
        delivery.get(),
        kind,
        example::data(kind, id, webhook.eshop, event),
        &example::eshops(kind),
    )
    .await?;
    change.note(recorded);
    must_be_next(change.connection(), id, delivery).await?;
    end_wait(change.connection(), id).await?;
    if webhook.active {
        change.note_lanes([id]);
    }
    let body = json!({"id": delivery, "webhookId": event}).to_string();
    let answer = Answer::accepted(format!("/api/webhook-delivery/{delivery}"), body);
    change.answer(context.claim, answer).await
}

/// Tests that are due and were not tried, of lanes that nobody has leased, the first of each organisation: what is sent while the
/// queue is paused.
pub async fn due_tests(db: &Database, most: usize) -> Result<Vec<(WebhookId, DeliveryId)>, Problem> {
    let due = sqlx::query!(
        r#"SELECT webhook AS "webhook!: WebhookId", test AS "test!: DeliveryId" FROM (
               SELECT DISTINCT ON (w.organisation_id) w.id AS webhook, l.test
               FROM webhook_lane l JOIN delivery d ON d.id = l.test JOIN webhook w ON w.id = l.webhook_id
               WHERE l.test IS NOT NULL AND l.leased_until < now() AND w.active
                 AND d.next_attempt_at <= now() AND d.attempt_count = 0
               ORDER BY w.organisation_id, l.test) AS first
           ORDER BY test LIMIT $1"#,
        i64::try_from(most).unwrap_or(i64::MAX),
    )
    .fetch_all(&db.main)
    .await?;
    Ok(due.into_iter().map(|due| (due.webhook, due.test)).collect())
}

/// Has the lane begin with a test, which is due before all else: it looks for nothing before its beginning. If it waits for a
/// probe, this is the next one, and not something that was [tried before](crate::calling::breaker::Breaker::probes_again).
async fn must_be_next(
    connection: &mut PgConnection,
    id: WebhookId,
    test: DeliveryId,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE webhook_lane
         SET nothing_before = least(nothing_before, (SELECT next_attempt_at FROM delivery WHERE id = $2)),
             probes = probes - probes % 2, test = $2
         WHERE webhook_id = $1",
        id.get(),
        test.get(),
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Refuses one more test of a webhook, which the caller has locked, until the first of the last minute's is a minute ago.
async fn must_not_be_too_many(connection: &mut PgConnection, id: WebhookId) -> Result<(), Problem> {
    let recent = sqlx::query!(
        r#"SELECT count(*) AS "tests!", extract(epoch FROM min(at) + interval '1 minute' - now())::float8 AS wait
           FROM audit
           WHERE entity_id = $1 AND id >= uuid_v7_floor(now() - interval '1 minute') AND action = $2"#,
        id.get(),
        ACTION,
    )
    .fetch_one(connection)
    .await?;
    if recent.tests < TESTS_A_MINUTE {
        return Ok(());
    }
    let detail = format!("the webhook was tested {TESTS_A_MINUTE} times within a minute");
    let wait = Duration::try_from_secs_f64(recent.wait.unwrap_or_default()).unwrap_or_default();
    Err(Problem::new(&RATE_LIMITED, detail).retry_after(wait.max(Duration::from_secs(1))))
}
