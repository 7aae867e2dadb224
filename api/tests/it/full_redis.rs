//! A full Redis: it answers, but refuses writes. Requests are accepted, and every view of the service's state
//! reports it.

use http::Method;
use longshore_testkit::little_redis::{LittleRedis, MAX_MEMORY};
use longshore_testkit::services;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::console::Browser;
use crate::product::MIGRATIONS;
use crate::support::Api;

/// A service with a private Redis.
async fn with_little_redis(options: &PgConnectOptions) -> (Api, LittleRedis) {
    let redis = LittleRedis::start().await.unwrap();
    let mut services = services::for_test(options).unwrap();
    services.queues = redis.queues().unwrap();
    (Api::over(services).await, redis)
}

async fn switch(api: &Api) {
    let prefer = [("prefer", "respond-async")];
    let ids = json!([uuid::Uuid::max()]);
    api.call_with(&api.user, Method::PUT, "/api/product/activate", ids, &prefer).await.expect(202);
}

async fn queue(api: &Api) -> (Value, Value) {
    let shown = api.get(&api.viewer, "/api/queue").await.expect(200).json();
    let chunk = shown["queues"][0].clone();
    assert_eq!(chunk["name"], "chunk");
    (shown, chunk)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_api_stays_ready_accepts_jobs_and_reports_that_redis_is_down(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (api, redis) = with_little_redis(&options).await;
    let ready = async || api.get("", "/health/ready").await.expect(200).json();
    let well = ready().await;
    assert_eq!((&well["redis"], &well["redisReason"]), (&json!("up"), &Value::Null));
    let browser = Browser::new(&api, &api.viewer);
    let overview = browser.overview().await;
    assert!(overview.contains("Queue transport · ") && overview.contains(" of 4.0 MB used · "), "{overview}");

    redis.fill().await.unwrap();
    let full = ready().await;
    for (member, expected) in
        [("status", "ready"), ("postgres", "up"), ("redis", "down"), ("redisReason", "refuses_writes")]
    {
        assert_eq!(full[member], expected, "{full}");
    }
    assert_eq!(full["redisMemory"]["maxBytes"], MAX_MEMORY);
    switch(&api).await;
    let (shown, chunk) = queue(&api).await;
    assert_eq!((&shown["redis"], &shown["redisReason"]), (&json!("down"), &json!("refuses_writes")));
    assert_eq!(
        (&chunk["state"], &chunk["reachable"], &chunk["depth"]),
        (&json!("redis_down"), &json!(true), &json!(0))
    );
    assert_eq!((&chunk["recorded"]["open"], &chunk["recorded"]["due"]), (&json!(1), &json!(1)));
    let overview = browser.overview().await;
    let tile = overview.split("id=\"tile-redis\"").nth(1).unwrap().split("</div>").next().unwrap();
    assert!(
        tile.contains("refuses writes") && tile.contains("of 4.0 MB used") && tile.contains("OOM"),
        "{tile}"
    );
    assert!(
        overview.contains("1 open item waits in Postgres until Redis accepts writes again."),
        "{overview}"
    );
    assert_eq!(
        overview.matches("Redis refuses writes (").count(),
        1,
        "once, and not of each queue: {overview}"
    );
    assert!(!overview.contains(">idle<"), "{overview}");
    let queues = browser.open("/console/queue").await.expect(200).text;
    assert!(queues.contains("Redis refuses writes") && !queues.contains(">idle<"), "{queues}");
    let metrics = api.get("", "/metrics").await.expect(200).text;
    assert!(metrics.contains("longshore_up{part=\"redis\"} 0"), "{metrics}");

    redis.free().await.unwrap();
    assert_eq!(ready().await["redis"], "up");
    let (shown, chunk) = queue(&api).await;
    // the queue is not read, and Postgres knows the waiting work
    assert_eq!((&shown["redis"], &chunk["state"]), (&json!("up"), &json!("no_worker")));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_nearly_full_redis_is_reported_before_it_refuses_writes(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (api, redis) = with_little_redis(&options).await;
    redis.nearly_fill().await.unwrap();
    assert_eq!(api.get("", "/health/ready").await.expect(200).json()["redis"], "up");
    let overview = Browser::new(&api, &api.viewer).overview().await;
    assert!(overview.contains(">nearly full<") && overview.contains("Redis is nearly full ("), "{overview}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn probing_uses_no_memory(_: PgPoolOptions, options: PgConnectOptions) {
    let (api, redis) = with_little_redis(&options).await;
    for _ in 0..50 {
        api.get("", "/health/ready").await.expect(200);
    }
    let keys: Vec<String> = redis.ask(&["KEYS", "*"]).await.unwrap();
    let prefix = api.services.queues.prefix();
    assert_eq!(keys, [format!("{{{prefix}q:chunk}}:probe")]);
    let lives: i64 = redis.ask(&["TTL", &keys[0]]).await.unwrap();
    assert!((1..=10).contains(&lives), "{lives}");
}
