//! Lines about who hears of events late: webhooks that are too slow for what happens, and readers.

use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{execute, find, line};
use crate::product::{MIGRATIONS, World};

/// Creates a webhook, or a reader, of the e-shop.
async fn made(world: &World, path: &str, fields: Value) -> Uuid {
    let mut body = json!({"eshop": world.api.tenant.eshop, "event": "product_change"});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let made = world.api.post(&world.api.user, path, body).await.expect(201).json();
    made["id"].as_str().unwrap().parse().unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_webhook_whose_rate_needs_more_than_an_hour_is_a_line(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let (rate, path) =
        (json!({"destination": "https://shop.example/hook", "maxPerSecond": 0.1}), "/api/eshop-webhook");
    let hook = made(&world, path, rate).await;
    let waits = "INSERT INTO delivery (id, webhook_id, event_id, next_attempt_at)
                 SELECT uuid_v7(), $1, uuid_v7(), now() FROM generate_series(1, 181)";
    execute(&world, waits, hook).await;
    let older = "UPDATE delivery SET next_attempt_at = now() - interval '3 minutes' WHERE webhook_id = $1";
    execute(&world, older, hook).await;
    assert_eq!(find(&world, &api.superadmin, "slow_webhook").await, None);
    execute(&world, waits, hook).await;
    let path = format!("{path}/{hook}");
    let shown = api.get(&api.user, &path).await.expect(200).json();
    assert_eq!(shown["backlog"], json!({"waiting": 362, "seconds": 3620}));
    let slow = line(&world, &api.superadmin, "slow_webhook").await;
    let said = "https://shop.example/hook (Gifts shop): 362 events wait, the first for 3 min; at its own rate they take 60 min.";
    assert_eq!(
        (&slow["sentence"], &slow["page"]),
        (&json!(said), &json!(format!("/console/webhook/{hook}")))
    );
    // nobody else's business
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let theirs = other.token(&api.services, Role::Admin).await.unwrap();
    assert_eq!(find(&world, &theirs, "slow_webhook").await, None);
    // a batch is one call
    let batch = json!({"batch": {"maxEvents": 100, "maxWaitMs": 0}, "maxInFlight": 1});
    api.put(&api.user, &path, batch).await.expect(200);
    assert_eq!(api.get(&api.user, &path).await.expect(200).json()["backlog"]["seconds"], 37);
    assert_eq!(find(&world, &api.superadmin, "slow_webhook").await, None);
    // more waits than is counted, and for long
    let many = "INSERT INTO delivery (id, webhook_id, event_id, next_attempt_at)
                SELECT uuid_v7(), $1, uuid_v7(), now() FROM generate_series(1, 9700)";
    execute(&world, many, hook).await;
    assert_eq!(find(&world, &api.superadmin, "slow_webhook").await, None);
    execute(
        &world,
        "UPDATE delivery SET next_attempt_at = now() - interval '61 minutes' WHERE webhook_id = $1",
        hook,
    )
    .await;
    let slow = line(&world, &api.superadmin, "slow_webhook").await;
    let said = slow["sentence"].as_str().unwrap();
    assert!(
        said.ends_with(
            "10,000+ events wait, the first for 61 min; at its own rate they take at least 17 min."
        ),
        "{said}"
    );
    // its destination fails: that is another line
    execute(
        &world,
        "UPDATE webhook_lane SET failures = 1, failing_since = now() WHERE webhook_id = $1",
        hook,
    )
    .await;
    assert_eq!(find(&world, &api.superadmin, "slow_webhook").await, None);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_reader_that_cannot_be_read_and_one_that_nobody_reads_are_lines(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    // it would say that what is made older here has just changed
    sqlx::query("ALTER TABLE event_reader DISABLE TRIGGER raise_version")
        .execute(&world.owner)
        .await
        .unwrap();
    // a session that may not know of the reader
    let mut session = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM event_reader").execute(&mut *session).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *session).await.unwrap();
    let reader = made(&world, "/api/event-reader", json!({"name": "ERP"})).await;
    assert_eq!(find(&world, &api.superadmin, "starting_reader").await, None, "it takes a moment");
    execute(
        &world,
        "UPDATE event_reader SET changed_at = now() - interval '3 minutes' WHERE id = $1",
        reader,
    )
    .await;
    let starting = line(&world, &api.superadmin, "starting_reader").await;
    let said = format!(
        "The reader ERP (Gifts shop) has been starting for 3 min: session {pid} of Postgres has not ended since."
    );
    assert_eq!(
        (&starting["sentence"], &starting["page"]),
        (&json!(said), &json!(format!("/console/reader/{reader}")))
    );
    session.rollback().await.unwrap();
    assert_eq!(find(&world, &api.superadmin, "starting_reader").await, None);

    let path = format!("/api/event-reader/{reader}/events");
    api.get(&api.user, &path).await.expect(200);
    let read = "UPDATE event_reader_position SET read_at = now() - interval '24 days' WHERE reader_id = $1";
    execute(&world, read, reader).await;
    let unread = line(&world, &api.superadmin, "unread_reader").await;
    assert_eq!(
        unread["sentence"],
        "Nobody has read the reader ERP (Gifts shop) for 24 d; it is removed in 6 d."
    );
    api.get(&api.user, &path).await.expect(200);
    assert_eq!(find(&world, &api.superadmin, "unread_reader").await, None);
}
