//! Deliveries that were exhausted: a line until they are sent again.

use longshore_kernel::access::Role;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{execute, find, line, path};
use crate::console::{Browser, webhook};
use crate::product::{MIGRATIONS, World};
use crate::support::send_again;

const KIND: &str = "exhausted_deliveries";

/// A delivery of each webhook was exhausted an hour ago, as its worker records and counts it.
pub(super) async fn is_exhausted(world: &World, hooks: &[Uuid]) {
    sqlx::query(
        "WITH hook AS (
             SELECT w.* FROM unnest($1::uuid[]) AS named (id) JOIN webhook w ON w.id = named.id
         ), recorded AS (
             INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data)
             SELECT uuid_v7(), 'product_change', organisation_id, 'product', id, '{}' FROM hook RETURNING id, entity_id
         ), counted AS (
             INSERT INTO exhausted_activity (minute, webhook_id, deliveries)
             SELECT date_trunc('minute', now() - interval '1 hour'), id, 1 FROM hook ON CONFLICT DO NOTHING
         )
         INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state, attempt_count,
                                       attempts, created_at, finished_at)
         SELECT uuid_v7(), hook.id, hook.eshop_id, hook.organisation_id, r.id, 'product_change', r.entity_id, 'exhausted', 1,
                '[{\"number\": 1, \"status\": 500, \"durationMs\": 40}]', now() - interval '61 minutes',
                clock_timestamp() - interval '1 hour'
         FROM hook JOIN recorded r ON r.entity_id = hook.id",
    )
    .bind(hooks)
    .execute(&world.owner)
    .await
    .unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn exhausted_deliveries_are_a_line_until_they_are_sent_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    let hook = webhook(api, "https://hooks.alpine.example/in").await;
    assert_eq!(find(&world, &admin, KIND).await, None);

    is_exhausted(&world, &[hook]).await;
    let one = line(&world, &admin, KIND).await;
    assert_eq!(
        (&one["severity"], &one["organisation"], &one["page"]),
        (&json!("critical"), &json!(api.tenant.organisation), &json!(format!("/console/webhook/{hook}")))
    );
    let said = "hooks.alpine.example (Gifts shop): 1 delivery exhausted, the last 60 min ago. Replay sends them again.";
    assert_eq!(one["sentence"], said);
    let page = Browser::new(api, &admin).overview().await;
    assert!(
        page.contains("): 1 delivery exhausted, ") && page.contains(&format!("/console/webhook/{hook}")),
        "{page}"
    );
    assert_eq!(find(&world, &theirs, KIND).await, None);
    // one more is something new
    api.put(&admin, &path(&one, "acknowledge"), Value::Null).await.expect(200);
    assert_eq!(line(&world, &admin, KIND).await["silence"]["mode"], "acknowledged");
    is_exhausted(&world, &[hook]).await;
    let two = line(&world, &admin, KIND).await;
    assert_eq!((&two["id"], &two["silence"]), (&one["id"], &Value::Null));
    assert!(two["sentence"].as_str().unwrap().contains("): 2 deliveries exhausted, "), "{two}");

    let body = json!({"webhooks": [hook], "since": "2020-01-01T00:00:00Z"});
    let job = api.post(&api.user, "/api/webhook-delivery/replay", body).await.expect(202).json();
    send_again(&api.services, job["id"].as_str().unwrap().parse().unwrap()).await;
    assert_eq!(find(&world, &admin, KIND).await, None, "both are on their way");
    // one of them is delivered, and the other exhausted again
    execute(
        &world,
        "WITH gone AS (
             DELETE FROM delivery WHERE webhook_id = $1 RETURNING *
         )
         INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state, attempt_count,
                                       attempts, redelivery_of, created_at, finished_at)
         SELECT gone.id, w.id, w.eshop_id, w.organisation_id, gone.event_id, 'product_change', w.id,
                CASE row_number() OVER (ORDER BY gone.id) WHEN 1 THEN 'delivered' ELSE 'exhausted' END, 1, '[]', gone.redelivery_of,
                gone.created_at, now()
         FROM gone JOIN webhook w ON w.id = gone.webhook_id",
        hook,
    )
    .await;
    let again = line(&world, &admin, KIND).await;
    assert!(again["sentence"].as_str().unwrap().contains("): 1 delivery exhausted, "), "{again}");

    // what an operator deactivated is no problem
    execute(&world, "UPDATE webhook SET active = false WHERE id = $1", hook).await;
    assert_eq!(find(&world, &admin, KIND).await, None);
    execute(&world, "UPDATE webhook SET active = true WHERE id = $1", hook).await;
    assert!(find(&world, &admin, KIND).await.is_some());
    // three days later it is no longer listed, though the minute was counted
    execute(
        &world,
        "UPDATE delivery_history SET finished_at = finished_at - interval '3 days' WHERE webhook_id = $1",
        hook,
    )
    .await;
    assert_eq!(find(&world, &admin, KIND).await, None);
}
