//! A rate of calls holds over workers that take turns or die, and over clocks that are set; and nothing is lost by it.

use std::time::{Duration, Instant};

use longshore_domain::webhook::delivery::send_test;
use longshore_domain::webhook::lane::{self, Paid};
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::receiver::{Answer, By};
use longshore_worker::lanes::{self, LaneContext};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{Hook, PATIENCE, World, worker};

/// By how much two leases may differ in what they take for the time of Postgres, in seconds.
const CLOCKS: f64 = 0.05;

/// Calls that began earlier than the rate allows: in any *t* seconds at most rate × *t* + 1 begin.
async fn too_early(world: &World, hook: &Hook, rate: f64) -> Vec<String> {
    let calls: Vec<f64> = sqlx::query_scalar(
        "SELECT extract(epoch FROM (call ->> 'at')::timestamptz)::float8
         FROM delivery_history, jsonb_array_elements(attempts) AS call WHERE webhook_id = $1 ORDER BY 1",
    )
    .bind(hook.id)
    .fetch_all(&world.pool)
    .await
    .unwrap();
    assert_eq!(calls.len(), world.receiver.receipts_at(&hook.path).len());
    let mut found = Vec::new();
    for (first, began) in calls.iter().enumerate() {
        for (more, at) in calls.iter().enumerate().skip(first + 1) {
            let span = at - began;
            let count = f64::from(u32::try_from(more - first).unwrap());
            if count > rate * (span + CLOCKS) {
                found.push(format!("{} calls within {span} s", count + 1.0));
            }
        }
    }
    found
}

impl World {
    /// Runs turns as the dispatcher has them run, until so many deliveries have ended.
    async fn run_until(&self, worker: &LaneContext, hook: &Hook, delivered: i64) {
        let all = async {
            while self.ended(hook, "delivered").await < delivered {
                lanes::run(worker, hook.id).await.unwrap();
                // a lane that rests is not leased before
                let rests = "SELECT coalesce(extract(epoch FROM paid_until - clock_timestamp()), 0)::float8 FROM webhook_lane WHERE webhook_id = $1";
                let rests: f64 = sqlx::query_scalar(rests).bind(hook.id).fetch_one(&self.pool).await.unwrap();
                tokio::time::sleep(Duration::from_secs_f64(rests.max(0.001))).await;
            }
        };
        tokio::time::timeout(PATIENCE, all).await.unwrap();
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn no_more_calls_begin_than_the_rate_allows(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    for rate in [1_000.0, 100.0, 20.0, 2.5] {
        let hook = world.hook(&format!("/{rate}"), json!({"maxPerSecond": rate})).await;
        let events = if rate > 50.0 {
            100
        } else if rate > 10.0 {
            30
        } else {
            4
        };
        world.events(&hook, events).await;
        let began = Instant::now();
        world.run_until(&world.worker, &hook, i64::from(events)).await;
        let took = began.elapsed().as_secs_f64();
        let ideal = f64::from(events - 1) / rate;
        assert!(took >= ideal, "{events} at {rate}: {took}");
        assert!(took < 2.0 * ideal + 3.0, "{events} at {rate}: {took}");
        assert_eq!(too_early(&world, &hook, rate).await, [""; 0], "{rate}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_rate_holds_over_workers_that_take_turns(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let other = worker(&world.services);
    let hook = world.hook("/hook", json!({"maxPerSecond": 10})).await;
    let refuse = By::new(|receipt| Answer::Status(if receipt.body.len() % 3 == 0 { 500 } else { 204 }));
    world.receiver.answer("/hook", Answer::By(refuse));
    for _ in 0..6 {
        world.events(&hook, 3).await;
        for worker in [&world.worker, &other] {
            lanes::run(worker, hook.id).await.unwrap();
            world.make_due(&hook).await;
        }
        send_test(&world.services, &world.context(), hook.id, None).await.unwrap();
    }
    world.receiver.answer("/hook", Answer::Status(204));
    while world.live(&hook).await > 0 {
        world.make_due(&hook).await;
        tokio::join!(async { lanes::run(&world.worker, hook.id).await.unwrap() }, async {
            lanes::run(&other, hook.id).await.unwrap()
        },);
    }
    assert_eq!(world.ended(&hook, "delivered").await, 24);
    assert_eq!(too_early(&world, &hook, 10.0).await, [""; 0]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_a_dead_worker_has_paid_for_is_waited_for(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxPerSecond": 10})).await;
    let dead = world.lease(&hook).await;
    let db = &world.services.db;
    let paid = lane::pay(db, &dead, 10.0, 10).await.unwrap().unwrap();
    assert_eq!(paid.calls, 10);
    let ahead = "SELECT to_jsonb(extract(epoch FROM paid_until - clock_timestamp())::float8) FROM webhook_lane WHERE webhook_id = $1";
    let until = world.value(ahead, &hook).await.as_f64().unwrap();
    assert!(until > 1.0 && until <= 1.1, "a second of calls, and the pause after them: {until}");
    // by a clock that was set forward, its lease and what it has paid for are over
    let set = "UPDATE webhook_lane SET leased_until = now() - interval '1 hour', paid_until = now() - interval '1 hour' WHERE webhook_id = $1";
    sqlx::query(set).bind(hook.id).execute(&world.pool).await.unwrap();
    let next = world.lease(&hook).await;
    let wait = lane::pay(db, &next, 10.0, 1).await.unwrap().unwrap();
    assert!(wait.calls == 0 && wait.wait > Duration::from_millis(1_500), "{wait:?}");
    // what is lost pays for nothing
    assert_eq!(lane::pay(db, &dead, 10.0, 1).await.unwrap(), None);
    // and by one that was set back, no lane waits for long
    lane::release(db, &[(hook.id, next.token)]).await.unwrap();
    let set = "UPDATE webhook_lane SET paid_until = now() + interval '1 hour' WHERE webhook_id = $1";
    sqlx::query(set).bind(hook.id).execute(&world.pool).await.unwrap();
    let next = world.lease(&hook).await;
    let wait = lane::pay(db, &next, 10.0, 1).await.unwrap().unwrap();
    assert!(wait.wait <= Duration::from_millis(2_700), "{wait:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn calls_that_did_not_begin_are_given_back(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxPerSecond": 2})).await;
    let db = &world.services.db;
    let lease = world.lease(&hook).await;
    assert_eq!(lane::pay(db, &lease, 2.0, 2).await.unwrap().unwrap().calls, 2);
    lane::rest(db, &lease, Duration::ZERO).await.unwrap();
    lane::release(db, &[(hook.id, lease.token)]).await.unwrap();
    let next = world.lease(&hook).await;
    let paid = lane::pay(db, &next, 2.0, 1).await.unwrap().unwrap();
    assert_eq!(paid, Paid { wait: Duration::ZERO, calls: 1 });
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_lane_that_waits_for_its_rate_has_no_place_and_is_not_leased(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxPerSecond": 0.1, "batch": {"maxEvents": 2}})).await;
    world.events(&hook, 6).await;
    lanes::run(&world.worker, hook.id).await.unwrap();
    assert_eq!(world.receiver.requests(), 1);
    // it has ended, and nobody leases the lane meanwhile
    lanes::run(&world.worker, hook.id).await.unwrap();
    assert!(lane::lease(&world.services, &[hook.id]).await.unwrap().is_empty());
    let rests: Value = world
        .value(
            "SELECT jsonb_build_array(leased_until = '-infinity', paid_until BETWEEN now() + interval '8 s' AND now() + interval '10 s')
             FROM webhook_lane WHERE webhook_id = $1",
            &hook,
        )
        .await;
    assert_eq!(rests, json!([true, true]));
    assert!(lane::due(&world.services.db, None, 10).await.unwrap().lanes.is_empty());
}
