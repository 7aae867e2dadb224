//! Effects of a destination, a clock and a long transaction on a lane, and the maximum number of lanes.

use std::time::Duration;

use chrono::TimeDelta;
use futures::future::join_all;
use longshore_domain::standing::backlog;
use longshore_domain::webhook::lane::{self, Way};
use longshore_domain::webhook::{delivery, subscription};
use longshore_kernel::clock::Clock;
use longshore_kernel::database::Database;
use longshore_kernel::problem::QUOTA_REACHED;
use longshore_testkit::receiver::{Answer, Receiver};
use longshore_testkit::services;
use longshore_worker::lanes::{self, Ran};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn concurrent_creations_do_not_exceed_the_webhooks_that_an_eshop_may_have(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut services = services::for_test(&options).unwrap();
    services.outbound.webhooks_per_eshop = 5;
    let world = World::over(services, &options, Receiver::start().await.unwrap()).await;
    let body = json!({"eshop": world.tenant.eshop, "event": "*", "destination": world.receiver.url("/")});
    let context = world.context();
    let created =
        join_all((0..12).map(|_| subscription::create(&world.services, &context, body.clone()))).await;
    let (made, refused): (Vec<_>, Vec<_>) = created.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (5, 7));
    for problem in refused {
        let problem = problem.unwrap_err();
        assert_eq!(problem.kind(), &QUOTA_REACHED);
        assert!(problem.detail().contains("may have 5"), "{}", problem.detail());
    }
    // deleting one makes room
    let id = made.into_iter().next().unwrap().unwrap().location.unwrap();
    let id = id.rsplit('/').next().unwrap().parse().unwrap();
    subscription::delete(&world.services, &context, id).await.unwrap();
    subscription::create(&world.services, &context, body.clone()).await.unwrap();
    assert!(subscription::create(&world.services, &context, body).await.is_err());
}

/// Whether the lane is held for five minutes.
const FIVE_MINUTES: &str =
    "SELECT to_jsonb(held_until BETWEEN now() + interval '290 s' AND now() + interval '301 s')
                            FROM webhook_lane WHERE webhook_id = $1";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn retry_after_holds_the_whole_lane_including_its_probes(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 1})).await;
    let ok = Answer::Status(204);
    world.receiver.answer("/hook", Answer::Sequence(vec![Answer::RetryAfter(429, 86_400), ok]));
    world.events(&hook, 4).await;
    assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), Ran::Done);
    assert_eq!(world.receiver.requests(), 1, "nothing more was begun");
    // neither a due probe nor the dispatcher ends the hold
    world.make_probe_due(&hook).await;
    assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), Ran::NotLeased);
    for way in [Way::ByDelivery, Way::ByWebhook] {
        let scan = lane::due_by(&world.services.db, way, None, 10).await.unwrap();
        assert!(scan.lanes.is_empty(), "{way:?}");
    }
    assert_eq!(world.value(FIVE_MINUTES, &hook).await, true);
    sqlx::query("UPDATE webhook_lane SET held_until = now() - interval '1 second'")
        .execute(&world.pool)
        .await
        .unwrap();
    world.make_due(&hook).await;
    world.drain(&hook).await;
    assert_eq!((world.receiver.requests(), world.ended(&hook, "delivered").await), (5, 4));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_delivery_waits_for_hours_as_its_destination_asks_and_the_others_for_minutes(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 1})).await;
    let answers = vec![Answer::RetryAfter(503, 86_400), Answer::Status(204)];
    world.receiver.answer("/hook", Answer::Sequence(answers));
    world.events(&hook, 1).await;
    sqlx::query("UPDATE delivery SET attempt_count = 5").execute(&world.pool).await.unwrap();
    world.drain(&hook).await;
    assert_eq!(world.value(FIVE_MINUTES, &hook).await, true);
    let waits =
        "SELECT to_jsonb(next_attempt_at > now() + interval '13 hours') FROM delivery WHERE webhook_id = $1";
    assert_eq!(world.value(waits, &hook).await, true);
    world.events(&hook, 3).await;
    sqlx::query("UPDATE webhook_lane SET held_until = held_until - interval '301 s'")
        .execute(&world.pool)
        .await
        .unwrap();
    world.drain(&hook).await;
    assert_eq!((world.ended(&hook, "delivered").await, world.live(&hook).await), (3, 1));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_a_replay_a_recovery_and_an_activation_end_a_hold(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    let (services, context) = (&world.services, world.context());
    let hold = async |seconds: i32| {
        sqlx::query("UPDATE webhook_lane SET held_until = now() + make_interval(secs => $1)")
            .bind(seconds)
            .execute(&world.pool)
            .await
            .unwrap();
    };
    let body = json!({"webhooks": [hook.id], "since": "2020-01-01T00:00:00Z"});
    let since = json!({"since": "2020-01-01T00:00:00Z"});
    for (action, sent) in [("test", 3), ("replay", 2), ("recover", 2), ("activate", 2)] {
        hold(290).await;
        world.events(&hook, 2).await;
        assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), Ran::NotLeased, "{action}");
        match action {
            "test" => {
                delivery::send_test(services, &context, hook.id, None).await.unwrap();
            }
            "replay" => {
                let answer = delivery::replay::replay(services, &context, body.clone()).await.unwrap();
                assert_eq!(world.run_job(&answer).await["released"], 2);
            }
            "recover" => {
                let answer = delivery::recover(services, &context, hook.id, since.clone()).await.unwrap();
                assert_eq!(world.run_job(&answer).await["released"], 2);
            }
            _ => {
                subscription::set_active(services, &context, hook.id, true).await.unwrap();
            }
        }
        world.drain(&hook).await;
        assert_eq!((world.receiver.take().len(), world.live(&hook).await), (sent, 0), "{action}");
    }
    // a hold as short as that of a deletion ends by itself
    hold(9).await;
    delivery::send_test(services, &context, hook.id, None).await.unwrap();
    let kept = "SELECT to_jsonb(held_until IS NOT NULL) FROM webhook_lane WHERE webhook_id = $1";
    assert_eq!(world.value(kept, &hook).await, true);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_held_as_its_destination_asked_does_not_wait_for_a_worker(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.events(&hook, 3).await;
    let read = async |held: &'static str| {
        sqlx::query(held).execute(&world.pool).await.unwrap();
        lane::backlog::read(&world.services.db).await.unwrap()
    };
    let aged = "UPDATE delivery SET next_attempt_at = now() - interval '5 minutes'";
    let free = read(aged).await;
    assert_eq!((free.due, free.held, free.free_lanes), (3, 0, 1));
    assert!(free.oldest_seconds >= 300.0 && free.busiest.is_some(), "{free:?}");
    let held = read("UPDATE webhook_lane SET held_until = now() + interval '1 hour'").await;
    assert_eq!((held.due, held.held, held.lanes, held.free_lanes), (3, 3, 1, 0));
    assert_eq!((held.oldest_seconds.to_bits(), held.busiest), (0.0_f64.to_bits(), None));
    let metrics = backlog::metrics(&world.services).await.unwrap();
    assert!(metrics.contains("longshore_webhook_held 3"), "{metrics}");
    // they have waited for a worker only since then
    let over = read("UPDATE webhook_lane SET held_until = now() - interval '1 second'").await;
    assert_eq!((over.held, over.free_lanes), (0, 1));
    assert!((1.0..200.0).contains(&over.oldest_seconds), "{over:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_success_of_a_call_that_was_under_way_does_not_end_a_hold(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 2})).await;
    let late = Answer::After(Duration::from_millis(300), Box::new(Answer::Status(204)));
    world
        .receiver
        .answer("/hook", Answer::Sequence(vec![late, Answer::RetryAfter(503, 60), Answer::Status(204)]));
    world.events(&hook, 6).await;
    assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), Ran::Done);
    assert_eq!(world.receiver.requests(), 2);
    assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), Ran::NotLeased);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_worker_whose_clock_is_wrong_signs_by_the_time_of_postgres_and_says_so(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    for wrong in [TimeDelta::minutes(10), TimeDelta::days(-1)] {
        let mut services = services::for_test(&options).unwrap();
        let right = services.clock.clone();
        services.clock = Clock::from_fn(move || right.now() + wrong);
        let world = World::over(services, &options, Receiver::start().await.unwrap()).await;
        let hook = world.hook("/hook", json!({})).await;
        world.events(&hook, 1).await;
        world.drain(&hook).await;
        hook.verifier.verify(&world.receiver.receipts()[0]).unwrap();
        let clock = world.services.metrics.clock();
        assert!(!clock.is_wrong());
        clock.look(&world.services.db, &world.services.clock).await.unwrap();
        let ahead = TimeDelta::seconds(wrong.num_seconds());
        assert!(
            clock.is_wrong() && (clock.seconds() - ahead.as_seconds_f64()).abs() < 5.0,
            "{}",
            clock.seconds()
        );
        let metrics = backlog::metrics(&world.services).await.unwrap();
        assert!(metrics.contains("longshore_clock_ahead_seconds"));
    }
}

/// Blocks of the live queue that one connection has read so far, from its published statistics.
async fn blocks(db: &Database) -> i64 {
    sqlx::query("SELECT pg_stat_force_next_flush()").execute(&db.main).await.unwrap();
    sqlx::query_scalar(
        "SELECT (heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::bigint FROM pg_statio_user_tables
         WHERE relname = 'delivery'",
    )
    .fetch_one(&db.main)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn delivered_rows_that_an_old_snapshot_keeps_are_not_read_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let services = services::with_connections(&options, 1).unwrap();
    let world = World::over(services, &options, Receiver::counting().await.unwrap()).await;
    let hook = world.hook("/hook", json!({})).await;
    let db = &world.services.db;
    let mut writer = world.pool.acquire().await.unwrap();
    // a turn always looks at the last ten seconds, including dead rows
    let earlier = "CREATE FUNCTION an_hour_ago() RETURNS trigger LANGUAGE plpgsql AS
                       'BEGIN NEW.next_attempt_at := NEW.next_attempt_at - interval ''1 hour''; RETURN NEW; END';
                   CREATE TRIGGER an_hour_ago BEFORE INSERT ON delivery FOR EACH ROW EXECUTE FUNCTION an_hour_ago()";
    sqlx::raw_sql(earlier).execute(&mut *writer).await.unwrap();
    let mut reader = world.pool.acquire().await.unwrap();
    sqlx::query("BEGIN ISOLATION LEVEL REPEATABLE READ").execute(&mut *reader).await.unwrap();
    sqlx::query("SELECT count(*) FROM delivery").execute(&mut *reader).await.unwrap();
    // sent and delivered a while ago, on a connection that publishes its statistics before the turns do
    world.events_in(&mut writer, &hook, 20_000).await;
    sqlx::query("ALTER TABLE delivery DISABLE TRIGGER an_hour_ago").execute(&mut *writer).await.unwrap();
    sqlx::query("DELETE FROM delivery").execute(&mut *writer).await.unwrap();
    let mut turn = async || {
        world.events_in(&mut writer, &hook, 1).await;
        sqlx::query("SELECT pg_stat_force_next_flush()").execute(&mut *writer).await.unwrap();
        let before = blocks(db).await;
        world.drain(&hook).await;
        let by_webhook = lane::due_by(db, Way::ByWebhook, None, 100).await.unwrap();
        assert!(by_webhook.lanes.is_empty());
        blocks(db).await - before
    };
    let first = turn().await;
    assert!(first > 500, "the first turn reads what is dead, or this proves nothing: {first} blocks");
    let then = turn().await;
    assert!(then < 150 && then < first / 4, "{then} blocks a turn, after {first}");
    drop(reader);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn deliveries_that_a_long_transaction_commits_before_the_beginning_of_a_lane_are_found(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.events(&hook, 1).await;
    world.drain(&hook).await;
    world.events(&hook, 1).await;
    // as if its transaction had begun a minute before its commit
    sqlx::query("UPDATE delivery SET next_attempt_at = now() - interval '1 minute'")
        .execute(&world.pool)
        .await
        .unwrap();
    world.drain(&hook).await;
    assert_eq!(world.live(&hook).await, 1, "a turn begins where the lane does");
    let scan = lane::due(&world.services.db, None, 10).await.unwrap();
    assert_eq!(scan.lanes, [hook.id]);
    world.drain(&hook).await;
    assert_eq!((world.live(&hook).await, world.receiver.requests()), (0, 2));
}
