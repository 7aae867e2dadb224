//! `/api/queue` (`docs/reference/jobs.md#queues`).

use chrono::{DateTime, TimeDelta, Utc};
use http::Method;
use longshore_kernel::access::Role;
use longshore_kernel::clock::Clock;
use longshore_kernel::config::RedisSettings;
use longshore_kernel::queue::{Queue, Queues};
use longshore_testkit::services;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::product::{MIGRATIONS, World};
use crate::support::Api;

const PATH: &str = "/api/queue";

fn find<'q>(shown: &'q Value, name: &str) -> &'q Value {
    shown["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == name).unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn queues_show_their_backlog_and_the_wishes_of_the_operator(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let prefer = [("prefer", "respond-async")];
    let path = "/api/product/activate";
    let ids = json!([uuid::Uuid::max()]);
    api.call_with(&api.user, Method::PUT, path, ids, &prefer).await.expect(202);
    let names = ["a", "b"].map(str::to_owned);
    api.services.queues.put(Queue::Lane, &names, std::time::Duration::from_secs(20)).await.unwrap();
    let shown = api.get(&api.viewer, PATH).await.expect(200).json();
    assert_eq!(shown["redis"], "up");
    let all: Vec<_> = shown["queues"].as_array().unwrap().iter().map(|q| q["name"].clone()).collect();
    assert_eq!(all, ["chunk", "partner", "lane", "handover", "upkeep"]);
    let recorded = &find(&shown, "chunk")["recorded"];
    assert_eq!(
        (&recorded["open"], &recorded["running"], &recorded["due"]),
        (&json!(1), &json!(0), &json!(1))
    );
    assert!(recorded["oldestDueSeconds"].as_f64().unwrap() >= 0.0);
    assert_eq!(find(&shown, "upkeep")["recorded"]["due"], Value::Null);
    let lane = find(&shown, "lane");
    assert!(lane["oldestSeconds"].as_f64().unwrap() >= 0.0);
    for (field, expected) in [
        ("depth", json!(2)),
        ("inFlight", json!(0)),
        ("workers", json!(0)),
        ("paused", json!(false)),
        ("resumesAt", Value::Null),
        ("concurrency", Value::Null),
        ("reachable", json!(true)),
        ("state", json!("no_worker")),
    ] {
        assert_eq!(lane[field], expected, "{field}");
    }
    assert_eq!(find(&shown, "upkeep")["oldestSeconds"], Value::Null);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_wish_is_stored_and_audited_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let wish = |paused: bool, concurrency: Value| json!({"name": "chunk", "paused": paused, "resumesAt": null, "concurrency": concurrency});
    for (action, body, expected) in [
        ("/pause", json!({"reason": "moving"}), wish(true, Value::Null)),
        ("/pause", json!({"reason": "again"}), wish(true, Value::Null)),
        ("", json!({"concurrency": 1}), wish(true, json!(1))),
        ("", json!({"concurrency": 1024}), wish(true, json!(1024))),
        ("/resume", Value::Null, wish(false, json!(1024))),
        ("", json!({"concurrency": null}), wish(false, Value::Null)),
    ] {
        let reply = api.put(&api.superadmin, &format!("{PATH}/chunk{action}"), body).await.expect(200);
        assert_eq!(reply.json(), expected);
        let shown = api.get(&api.superadmin, PATH).await.expect(200).json();
        let chunk = find(&shown, "chunk");
        assert_eq!(
            (&chunk["paused"], &chunk["concurrency"]),
            (&expected["paused"], &expected["concurrency"])
        );
        let reason = if chunk["paused"] == true { json!("moving") } else { Value::Null };
        assert_eq!(chunk["pause"]["reason"], reason);
        assert_eq!(find(&shown, "lane")["paused"], false);
    }
    let audited: Vec<(String, Value)> =
        sqlx::query_as("SELECT action, changes FROM audit WHERE entity_type = 'queue' ORDER BY id")
            .fetch_all(&world.owner)
            .await
            .unwrap();
    let expected = [
        ("queue.pause", json!({"paused": [false, true], "reason": [null, "moving"]})),
        ("queue.update", json!({"concurrency": [null, 1]})),
        ("queue.update", json!({"concurrency": [1, 1024]})),
        ("queue.resume", json!({"paused": [true, false]})),
        ("queue.update", json!({"concurrency": [1024, null]})),
    ];
    assert_eq!(audited, expected.map(|(action, changes)| (action.to_owned(), changes)));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_pause_of_upkeep_shows_its_end_and_so_does_the_audit(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let put = async |action: &str| {
        api.put(&api.superadmin, &format!("{PATH}/upkeep/{action}"), Value::Null).await.expect(200).json()
    };
    let paused = put("pause").await;
    let at: DateTime<Utc> = paused["resumesAt"].as_str().unwrap().parse().unwrap();
    let left = at - Clock::system().now();
    assert!(TimeDelta::minutes(58) < left && left < TimeDelta::minutes(62), "{paused}");
    // neither another pause nor another change postpones it
    assert_eq!(put("pause").await["resumesAt"], paused["resumesAt"]);
    let updated = api
        .put(&api.superadmin, &format!("{PATH}/upkeep"), json!({"concurrency": 2}))
        .await
        .expect(200)
        .json();
    assert_eq!(updated["resumesAt"], paused["resumesAt"]);
    let shown = api.get(&api.viewer, PATH).await.expect(200).json();
    assert_eq!(find(&shown, "upkeep")["resumesAt"], paused["resumesAt"]);
    assert_eq!(put("resume").await["resumesAt"], Value::Null);
    let changes: Vec<Value> = sqlx::query_scalar(
        "SELECT changes FROM audit WHERE action IN ('queue.pause', 'queue.resume') ORDER BY id",
    )
    .fetch_all(&world.owner)
    .await
    .unwrap();
    assert_eq!(changes.len(), 2);
    let audited: DateTime<Utc> = changes[0]["resumesAt"][1].as_str().unwrap().parse().unwrap();
    assert_eq!(
        (audited, &changes[0]["resumesAt"][0], &changes[1]["resumesAt"][1]),
        (at, &Value::Null, &Value::Null)
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_wish_is_within_bounds_and_for_an_existing_queue(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    for (body, violation) in [
        (json!({}), "concurrency required"),
        (json!({"concurrency": 0}), "concurrency out_of_range"),
        (json!({"concurrency": 4097}), "concurrency out_of_range"),
        (json!({"concurrency": "4"}), "concurrency wrong_type"),
        (json!({"concurrency": 4, "paused": true}), "paused unknown_field"),
    ] {
        let reply = api.put(&api.superadmin, &format!("{PATH}/lane"), body).await.expect(400);
        assert_eq!(reply.violations(), [violation]);
    }
    let long = json!({"reason": "x".repeat(201)});
    let reply = api.put(&api.superadmin, &format!("{PATH}/lane/pause"), long).await.expect(400);
    assert_eq!(reply.violations(), ["reason invalid_length"]);
    for name in ["Chunk", "chunks", "%2e"] {
        for action in ["", "/pause", "/resume"] {
            let path = format!("{PATH}/{name}{action}");
            api.put(&api.superadmin, &path, json!({"concurrency": 4})).await.expect(404);
        }
    }
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    for (token, reads) in [(&admin, true), (&api.viewer, true), (&api.user, false), (&api.connector, false)] {
        api.get(token, PATH).await.expect(if reads { 200 } else { 403 });
        for action in ["", "/pause", "/resume"] {
            api.put(token, &format!("{PATH}/lane{action}"), json!({"concurrency": 4})).await.expect(403);
        }
    }
    api.get("", PATH).await.expect(401);
    assert_eq!(world.count("SELECT count(*) FROM queue WHERE paused OR concurrency IS NOT NULL").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn without_redis_the_state_from_postgres_is_shown_and_wishes_are_accepted(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let away =
        RedisSettings { redis_url: "redis://127.0.0.1:1".to_owned(), queue_prefix: "away:".to_owned() };
    let mut services = services::for_test(&options).unwrap();
    services.queues = Queues::open(&away).unwrap();
    let api = Api::over(services).await;
    api.put(&api.superadmin, &format!("{PATH}/lane/pause"), Value::Null).await.expect(200);
    let shown = api.get(&api.superadmin, PATH).await.expect(200).json();
    assert_eq!(shown["redis"], "down");
    let lane = find(&shown, "lane");
    assert_eq!((&lane["paused"], &lane["reachable"]), (&json!(true), &json!(false)));
    for field in ["depth", "inFlight", "oldestSeconds", "workers"] {
        assert_eq!(lane[field], Value::Null, "{field}");
    }
    assert_eq!((&shown["redisReason"], &lane["state"]), (&json!("unreachable"), &json!("redis_down")));
    let recorded = json!({"open": 0, "running": 0, "due": 0, "oldestDueSeconds": null});
    assert_eq!(find(&shown, "chunk")["recorded"], recorded);
}
