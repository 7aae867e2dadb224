//! The rate limit of an account.

use std::time::{Duration, Instant};

use longshore_http::app::App;
use longshore_http::limits::Limits;
use longshore_kernel::config::RedisSettings;
use longshore_kernel::queue::Queues;
use longshore_kernel::rate::{Rate, RateLimiter};
use longshore_kernel::services::Services;
use longshore_testkit::services;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::net::TcpListener;

use super::{MIGRATIONS, PATIENCE};
use crate::support::{Api, Reply};

/// A burst, and one more request per second: the slowest rate, so that little is refilled during a test.
fn limits(services: &Services, burst: u32, patience: Duration) -> Limits {
    let rate = Rate::new(1, burst).unwrap();
    let limiter = RateLimiter::new(&services.queues, rate, patience);
    Limits { rate: Some(limiter), ..Limits::default() }
}

async fn limited(services: Services, burst: u32, patience: Duration) -> Api {
    let limits = limits(&services, burst, patience);
    Api::with(App::with(services, limits)).await
}

async fn ask(api: &Api, token: &str) -> Reply {
    api.post(token, "/api/product/list", Value::Null).await
}

/// `name=value` of a parameter in a header.
fn parameter(reply: &Reply, header: &str, name: &str) -> u64 {
    let value = reply.header(header).unwrap();
    let found = value.split(';').find_map(|p| p.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("{value}")).parse().unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_token_that_has_used_up_its_rate_gets_retry_after(_: PgPoolOptions, options: PgConnectOptions) {
    const BURST: u32 = 3;
    let api = limited(services::for_test(&options).unwrap(), BURST, PATIENCE).await;
    let started = Instant::now();
    let first = ask(&api, &api.user).await.expect(200);
    assert_eq!(first.header("ratelimit-policy"), Some("\"account\";q=3;w=3"));
    assert_eq!((parameter(&first, "ratelimit", "r"), parameter(&first, "ratelimit", "t")), (2, 1));
    let mut allowed = 1;
    let refused = loop {
        let reply = ask(&api, &api.user).await;
        if reply.status == 429 {
            break reply;
        }
        allowed += 1;
        assert!(started.elapsed() < PATIENCE, "never refused");
    };
    // the burst, and what was refilled during the test
    let came_back = started.elapsed().as_secs() + 1;
    assert!((u64::from(BURST)..=u64::from(BURST) + came_back).contains(&allowed), "{allowed}");
    assert_eq!(refused.json()["code"], "rate_limited");
    assert_eq!((refused.header("retry-after"), parameter(&refused, "ratelimit", "r")), (Some("1"), 0));
    assert_eq!(refused.header("ratelimit-policy"), Some("\"account\";q=3;w=3"));
    // other accounts are not affected
    ask(&api, &api.connector).await.expect(200);
    let health = api.get(&api.user, "/health/live").await.expect(200);
    assert_eq!(health.header("ratelimit"), None);
    // requests without a valid token are not counted
    for token in ["lsh_nonsense", ""] {
        let reply = ask(&api, token).await.expect(401);
        assert_eq!(reply.header("ratelimit"), None);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn all_processes_share_one_bucket(_: PgPoolOptions, options: PgConnectOptions) {
    const BURST: u32 = 1_000;
    let services = services::for_test(&options).unwrap();
    let one = limited(services.clone(), BURST, PATIENCE).await;
    let other = Api::with(App::with(services.clone(), limits(&services, BURST, PATIENCE))).await;
    let started = Instant::now();
    for turn in 0..10_u64 {
        let reply = ask(if turn % 2 == 0 { &one } else { &other }, &one.user).await.expect(200);
        let left = parameter(&reply, "ratelimit", "r");
        let least = u64::from(BURST) - turn - 1;
        assert!((least..=least + started.elapsed().as_secs() + 1).contains(&left), "{left} after {turn}");
        if turn == 9 {
            assert!(left < u64::from(BURST) - 5 + started.elapsed().as_secs(), "{left}: two buckets");
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn concurrent_requests_get_no_more_than_the_burst(_: PgPoolOptions, options: PgConnectOptions) {
    const BURST: u32 = 5;
    let services = services::for_test(&options).unwrap();
    let rate = Rate::new(1, BURST).unwrap();
    let limiter = RateLimiter::new(&services.queues, rate, PATIENCE);
    let who = uuid::Uuid::max();
    let started = Instant::now();
    let standings = futures::future::join_all((0..50).map(|_| limiter.take(who))).await;
    let allowed = standings.iter().filter(|s| s.allowed).count() as u64;
    let came_back = started.elapsed().as_secs() + 1;
    assert!((u64::from(BURST)..=u64::from(BURST) + came_back).contains(&allowed), "{allowed}");
    assert!(standings.iter().all(|s| s.allowed != (s.retry_in > Duration::ZERO)));
}

/// Services with a Redis at a port.
fn with_redis_at(options: &PgConnectOptions, port: u16) -> Services {
    let redis =
        RedisSettings { redis_url: format!("redis://127.0.0.1:{port}"), queue_prefix: "test:".to_owned() };
    Services { queues: Queues::open(&redis).unwrap(), ..services::for_test(options).unwrap() }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_tokens_of_an_account_share_its_rate(_: PgPoolOptions, options: PgConnectOptions) {
    let api = limited(services::for_test(&options).unwrap(), 4, PATIENCE).await;
    let user = json!({"email": "one@example.invalid", "firstName": "One", "lastName": "User",
        "organisation": api.tenant.organisation, "password": "a good long pass phrase"});
    api.post(&api.superadmin, "/api/business-user", user).await.expect(201);
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let login = json!({"email": "one@example.invalid", "password": "a good long pass phrase"});
        let login = api.post("", "/api/login/user", login).await.expect(200).json();
        let token = login["token"].as_str().unwrap().to_owned();
        for _ in 0..3 {
            statuses.push(ask(&api, &token).await.status.as_u16());
        }
    }
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert!(refused >= 3, "{statuses:?}");
}

/// Sends requests until the limit refuses one; returns the number of allowed ones.
async fn allowed(limiter: &RateLimiter) -> u32 {
    let mut allowed = 0;
    loop {
        let standing = limiter.take(uuid::Uuid::max()).await;
        assert!(standing.is_local);
        if !standing.allowed {
            return allowed;
        }
        allowed += 1;
        assert!(allowed < 1_000, "never refused");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn without_redis_the_process_counts_at_the_same_rate(_: PgPoolOptions, options: PgConnectOptions) {
    // a port that was free a moment ago
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let api = limited(with_redis_at(&options, port), 3, PATIENCE).await;
    let began = Instant::now();
    let mut passed = 0;
    let refused = loop {
        let reply = ask(&api, &api.user).await;
        if reply.status == 429 {
            break reply;
        }
        passed += 1;
    };
    assert!((3..=3 + began.elapsed().as_secs() + 1).contains(&passed), "{passed}");
    assert_eq!((refused.header("retry-after"), parameter(&refused, "ratelimit", "r")), (Some("1"), 0));
    let metrics = api.get("", "/metrics").await.expect(200).text;
    let counted = format!("longshore_rate_limit_fallbacks_total {}", passed + 1);
    assert!(metrics.contains(&counted), "{counted} is not in {metrics}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_redis_that_never_answers_neither_lifts_the_limit_nor_delays_requests(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    // like a stopped process: the kernel accepts connections, but nothing reads them
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let services = with_redis_at(&options, silent.local_addr().unwrap().port());
    let limiter = RateLimiter::new(&services.queues, Rate::new(1, 20).unwrap(), Duration::from_millis(5));
    let began = Instant::now();
    let passed = allowed(&limiter).await;
    assert!((20..=20 + began.elapsed().as_secs() + 1).contains(&u64::from(passed)), "{passed}");
    // waiting for each of these calls would exceed any time limit
    let asked = async {
        for _ in 0..100_000 {
            limiter.take(uuid::Uuid::nil()).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap();
}
