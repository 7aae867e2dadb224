//! The breaker: a destination that fails repeatedly gets probes, and waiting deliveries use no attempts.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use longshore_domain::calling::breaker::{Breaker, Sign, Tally};
use longshore_domain::webhook::lane::{self, End, Outcome};
use longshore_domain::webhook::{delivery, subscription};
use longshore_kernel::ids::{DeliveryId, EventId, WebhookId};
use longshore_testkit::receiver::{Answer, By};
use longshore_worker::lanes::{self, Ran};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::support::{Hook, PATIENCE, World, worker};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// The state of the lane, and the seconds until its next probe.
const LANE: &str =
    "SELECT jsonb_build_object('failures', failures, 'probes', probes, 'open', probe_at IS NOT NULL,
        'pause', extract(epoch FROM probe_at - now())::float8)
    FROM webhook_lane WHERE webhook_id = $1";

/// The number of deliveries for each number of attempts.
const ATTEMPTS: &str = "SELECT jsonb_object_agg(attempt_count, n) FROM (
        SELECT attempt_count, count(*) AS n FROM delivery WHERE webhook_id = $1 GROUP BY attempt_count) d";

async fn due(world: &World) -> Vec<WebhookId> {
    lane::due(&world.services.db, None, 100).await.unwrap().lanes
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn after_five_failures_one_probe_at_a_time_is_sent_and_the_backlog_uses_no_attempts(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 1})).await;
    world.receiver.answer("/hook", Answer::Status(500));
    world.events(&hook, 300).await;
    world.drain(&hook).await;
    assert_eq!(world.receiver.requests(), 5);
    for probes in 0..4 {
        // until the end of the pause, no worker runs the lane
        let lane = world.value(LANE, &hook).await;
        assert_eq!((&lane["failures"], &lane["probes"]), (&json!(5 + probes), &json!(probes)));
        let pause = [5.0, 10.0, 20.0, 40.0][probes] * 1.2;
        assert!(lane["pause"].as_f64().unwrap() <= pause, "{lane}");
        sqlx::query("UPDATE webhook_lane SET probe_at = probe_at + interval '1 hour'")
            .execute(&world.pool)
            .await
            .unwrap();
        // so do the retries
        tried_is_due_in_an_hour(&world).await;
        assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), Ran::NotLeased);
        assert!(due(&world).await.is_empty());
        // then one worker sends one probe
        world.make_probe_due(&hook).await;
        assert_eq!(due(&world).await, [hook.id]);
        let other = worker(&world.services);
        let (a, b) = tokio::join!(lanes::run(&world.worker, hook.id), lanes::run(&other, hook.id));
        assert!(a.unwrap() != Ran::More && b.unwrap() != Ran::More);
        assert_eq!(world.receiver.requests(), 6 + probes as u64);
    }
    assert_eq!(world.value(ATTEMPTS, &hook).await, json!({"0": 291, "1": 9}));
    // the destination has recovered: after a successful probe the backlog follows at once
    world.receiver.answer("/hook", Answer::Status(204));
    world.make_probe_due(&hook).await;
    world.drain(&hook).await;
    assert_eq!(world.ended(&hook, "delivered").await, 291);
    assert_eq!(world.live(&hook).await, 9, "what was tried waits for its own time");
    let lane = world.value(LANE, &hook).await;
    assert_eq!((&lane["failures"], &lane["probes"], &lane["open"]), (&json!(0), &json!(0), &json!(false)));
    world.make_due(&hook).await;
    world.drain(&hook).await;
    assert_eq!(world.live(&hook).await, 0);
}

/// Moves what was tried out of the way.
async fn tried_is_due_in_an_hour(world: &World) {
    sqlx::query("UPDATE delivery SET next_attempt_at = now() + interval '1 hour' WHERE attempt_count > 0")
        .execute(&world.pool)
        .await
        .unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_destination_that_fails_each_first_attempt_is_not_taken_for_dead(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 1})).await;
    let seen = Mutex::new(HashSet::new());
    let by = By::new(move |receipt| {
        let id = receipt.header("webhook-id").unwrap().to_owned();
        Answer::Status(if seen.lock().unwrap().insert(id) { 500 } else { 204 })
    });
    world.receiver.answer("/hook", Answer::By(by));
    world.events(&hook, 100).await;
    world.drain(&hook).await;
    assert_eq!(world.value(LANE, &hook).await["open"], true);
    // the first probe is what waits longest, and the second something that was tried before
    for delivered in [0, 1] {
        world.make_due(&hook).await;
        world.drain(&hook).await;
        assert_eq!(world.ended(&hook, "delivered").await, delivered);
    }
    let mut turns = 2;
    while world.live(&hook).await > 0 {
        world.make_due(&hook).await;
        world.drain(&hook).await;
        turns += 1;
    }
    assert!(turns < 60, "{turns} turns: it would be more than 95 if each delivery was a probe first");
    assert_eq!(world.receiver.requests(), 200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn calls_under_way_when_the_breaker_opens_fail_and_no_others(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 12})).await;
    let gate = world.receiver.hold("/hook", Answer::Status(503));
    world.events(&hook, 100).await;
    let opening = async {
        world.receiver.wait_for(12, PATIENCE).await.unwrap();
        gate.open();
    };
    tokio::join!(world.drain(&hook), opening);
    let requests = world.receiver.requests();
    // up to four slots are refilled before the fifth failure is known
    assert!((12..=16).contains(&requests), "{requests}");
    let lane = world.value(LANE, &hook).await;
    assert_eq!((&lane["failures"], &lane["probes"]), (&json!(requests), &json!(0)));
    let before = world.receiver.requests();
    for n in 1..=3 {
        world.make_probe_due(&hook).await;
        world.drain(&hook).await;
        assert_eq!(world.receiver.requests(), before + n);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_statement_and_the_state_machine_agree(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    let token = world.lease(&hook).await.token;
    let outcome = |sign: Sign| Outcome {
        delivery: DeliveryId::nil(),
        webhook: hook.id,
        token,
        probe: sign == Sign::Failure { probe: true },
        organisation: world.tenant.organisation,
        event_type: "product_change".to_owned(),
        entity: Uuid::nil(),
        end: match sign {
            Sign::Success => End::Delivered,
            Sign::Failure { .. } => End::Failed { wait: Duration::from_mins(1) },
        },
        attempt: None,
        hold: None,
        batch: None,
    };
    let sign = prop_oneof![
        Just(Sign::Success),
        Just(Sign::Failure { probe: false }),
        Just(Sign::Failure { probe: false }),
        Just(Sign::Failure { probe: true })
    ];
    let groups = proptest::collection::vec(proptest::collection::vec(sign, 1..7), 300);
    let groups = groups.new_tree(&mut TestRunner::deterministic()).unwrap().current();
    let mut breaker = Breaker::Closed { failures: 0 };
    let mut seen = (0, 0);
    for group in groups {
        let outcomes: Vec<_> = group.iter().map(|sign| outcome(*sign)).collect();
        let reported = lane::record(&world.services, &outcomes).await.unwrap();
        assert!(!reported[0].stale && !reported[0].disabled);
        let mut tally = Tally::default();
        for sign in &group {
            tally.add(*sign);
        }
        breaker = breaker.after(tally);
        let lane = world.value(LANE, &hook).await;
        let (failures, probes) = match breaker {
            Breaker::Closed { failures } => (failures, 0),
            Breaker::Open { failures, probes } => (failures, probes),
        };
        let expected = (json!(failures), json!(probes), json!(breaker.is_open()));
        assert_eq!(
            (lane["failures"].clone(), lane["probes"].clone(), lane["open"].clone()),
            expected,
            "{group:?}"
        );
        *(if breaker.is_open() { &mut seen.0 } else { &mut seen.1 }) += 1;
    }
    assert!(seen.0 > 30 && seen.1 > 30, "both sides were seen: {seen:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_ordered_lane_probes_with_the_next_delivery_in_order(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"ordered": true})).await;
    world.receiver.answer("/hook", Answer::Status(500));
    let events = world.events(&hook, 10).await;
    for _ in 0..7 {
        world.make_due(&hook).await;
        world.drain(&hook).await;
    }
    assert_eq!(world.value(LANE, &hook).await["probes"], 2);
    world.receiver.answer("/hook", Answer::Status(204));
    world.make_due(&hook).await;
    world.drain(&hook).await;
    let bodies: Vec<_> =
        world.receiver.receipts().iter().map(|r| r.header("webhook-id").unwrap().to_owned()).collect();
    let mut expected = vec![events[0].to_string(); 7];
    expected.extend(events.iter().map(EventId::to_string));
    assert_eq!(bodies, expected);
}

/// The types of events received since the last call.
fn came(world: &World) -> Vec<String> {
    let receipts = world.receiver.take();
    receipts.iter().map(|r| r.json().unwrap()["type"].as_str().unwrap().to_owned()).collect()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_is_the_next_probe_before_all_waiting_deliveries(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 1})).await;
    world.receiver.answer("/hook", Answer::Status(500));
    world.events(&hook, 50).await;
    world.drain(&hook).await;
    assert_eq!(came(&world), ["product_change"; 5]);
    // a release has found that nothing is before the backlog, and what was tried is due
    let age = "UPDATE delivery SET next_attempt_at = next_attempt_at - interval '5 minutes';
               UPDATE webhook_lane SET nothing_before = 'epoch'";
    sqlx::raw_sql(age).execute(&world.pool).await.unwrap();
    world.make_probe_due(&hook).await;
    world.drain(&hook).await;
    assert_eq!(came(&world), ["product_change"]);
    let begins =
        "SELECT to_jsonb(nothing_before = (SELECT min(next_attempt_at) FROM delivery)) FROM webhook_lane
                  WHERE webhook_id = $1";
    assert_eq!(world.value(begins, &hook).await, true);
    sqlx::query("UPDATE webhook_lane SET probe_at = now() + interval '1 hour'")
        .execute(&world.pool)
        .await
        .unwrap();
    delivery::send_test(&world.services, &world.context(), hook.id, None).await.unwrap();
    world.drain(&hook).await;
    assert_eq!(came(&world), ["test"]);
    let tried = "SELECT d.attempts -> 0 -> 'status' FROM delivery d JOIN event e ON e.id = d.event_id
         WHERE d.webhook_id = $1 AND e.type = 'test'";
    assert_eq!(world.value(tried, &hook).await, 500);
    // a successful test is followed by the backlog
    tried_is_due_in_an_hour(&world).await;
    world.receiver.answer("/hook", Answer::Status(204));
    delivery::send_test(&world.services, &world.context(), hook.id, None).await.unwrap();
    world.drain(&hook).await;
    let came = came(&world);
    assert_eq!((came.len(), came[0].as_str(), came[1].as_str()), (45, "test", "product_change"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_of_an_ordered_lane_waits_for_its_turn(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"ordered": true})).await;
    world.receiver.answer("/hook", Answer::Status(500));
    world.events(&hook, 3).await;
    for _ in 0..6 {
        world.make_due(&hook).await;
        world.drain(&hook).await;
    }
    came(&world);
    delivery::send_test(&world.services, &world.context(), hook.id, None).await.unwrap();
    world.receiver.answer("/hook", Answer::Status(204));
    world.make_due(&hook).await;
    world.drain(&hook).await;
    assert_eq!(came(&world), ["product_change", "product_change", "product_change", "test"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_changed_destination_resets_the_breaker(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/old", json!({"maxInFlight": 1})).await;
    world.receiver.answer("/old", Answer::Status(500));
    world.events(&hook, 20).await;
    world.drain(&hook).await;
    assert_eq!(world.value(LANE, &hook).await["open"], true);
    let body = json!({"destination": world.receiver.url("/new")});
    subscription::update(&world.services, &world.context(), hook.id, body, |_| Ok(())).await.unwrap();
    world.drain(&hook).await;
    assert_eq!(world.receiver.receipts_at("/new").len(), 15);
}

/// Makes a lane look as if it had been tried and failed for this many days.
async fn failing_for(world: &World, hook: &Hook, days: f64) {
    sqlx::query(
        "UPDATE webhook_lane l SET failing_since = since, tried_since = since
         FROM (SELECT now() - make_interval(secs => $2 * 86400) AS since) AS s WHERE l.webhook_id = $1",
    )
    .bind(hook.id)
    .bind(days)
    .execute(&world.pool)
    .await
    .unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn days_in_which_nothing_was_tried_are_no_days_of_failures(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 1})).await;
    world.receiver.answer("/hook", Answer::Status(500));
    world.events(&hook, 20).await;
    world.drain(&hook).await;
    let state =
        "SELECT jsonb_build_object('active', w.active, 'old', l.failing_since < now() - interval '5 days',
                     'new', l.tried_since > now() - interval '1 hour')
                 FROM webhook w JOIN webhook_lane l ON l.webhook_id = w.id WHERE w.id = $1";
    let fail = async |hours: i32| {
        sqlx::query("UPDATE webhook_lane SET failed_at = now() - make_interval(hours => $1)")
            .bind(hours)
            .execute(&world.pool)
            .await
            .unwrap();
        world.make_probe_due(&hook).await;
        world.drain(&hook).await;
        world.value(state, &hook).await
    };
    failing_for(&world, &hook, 6.0).await;
    assert_eq!(fail(30).await, json!({"active": true, "old": true, "new": true}));
    assert_eq!(fail(1).await["active"], true);
    // with no longer pause than one before a retry
    failing_for(&world, &hook, 5.1).await;
    assert_eq!(fail(28).await, json!({"active": false, "old": true, "new": false}));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn five_days_of_failures_disable_a_webhook_which_keeps_its_due_deliveries(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 1})).await;
    world.receiver.answer("/hook", Answer::Status(500));
    world.events(&hook, 20).await;
    world.drain(&hook).await;
    let disabled =
        "SELECT jsonb_build_object('active', active, 'reason', disabled_reason) FROM webhook WHERE id = $1";
    failing_for(&world, &hook, 4.9).await;
    world.make_probe_due(&hook).await;
    world.drain(&hook).await;
    assert_eq!(world.value(disabled, &hook).await, json!({"active": true, "reason": Value::Null}));
    // a day with one successful call does not count
    world.receiver.answer("/hook", Answer::Sequence(vec![Answer::Status(204), Answer::Status(500)]));
    failing_for(&world, &hook, 6.0).await;
    world.make_probe_due(&hook).await;
    world.drain(&hook).await;
    assert_eq!(world.value(disabled, &hook).await["active"], true);
    assert_eq!(world.value(LANE, &hook).await["failures"], 5);
    failing_for(&world, &hook, 5.1).await;
    world.make_probe_due(&hook).await;
    world.drain(&hook).await;

    let reason = "all attempts failed for five days";
    assert_eq!(world.value(disabled, &hook).await, json!({"active": false, "reason": reason}));
    let audit = "SELECT jsonb_agg(changes) FROM audit WHERE entity_id = $1 AND action = 'webhook.disable'";
    assert_eq!(
        world.value(audit, &hook).await,
        json!([{"active": [true, false], "disabledReason": [Value::Null, reason]}])
    );
    assert_eq!((world.receiver.requests(), world.live(&hook).await), (13, 19));
    assert!(due(&world).await.is_empty());
    // the destination was repaired
    world.receiver.answer("/hook", Answer::Status(204));
    subscription::set_active(&world.services, &world.context(), hook.id, true).await.unwrap();
    assert_eq!(world.value(LANE, &hook).await["open"], false);
    world.drain(&hook).await;
    world.make_due(&hook).await;
    world.drain(&hook).await;
    assert_eq!((world.live(&hook).await, world.ended(&hook, "delivered").await), (0, 20));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_destination_that_hangs_delays_no_other(_: PgPoolOptions, options: PgConnectOptions) {
    let mut world = World::new(&options).await;
    // practically for ever: everything else arrives while it hangs
    world.worker.deadline = Duration::from_mins(10);
    let (hanging, well) =
        (world.hook("/hanging", json!({})).await, world.hook("/well", json!({"maxInFlight": 2})).await);
    world.receiver.answer("/hanging", Answer::Hang);
    world.events(&hanging, 500).await;
    world.events(&well, 500).await;
    let (lanes, id) = (world.worker.clone(), hanging.id);
    let hangs = tokio::spawn(async move { lanes::run(&lanes, id).await });
    // all its slots are in use
    world.receiver.wait_for(16, PATIENCE).await.unwrap();
    world.drain(&well).await;
    assert_eq!((world.ended(&well, "delivered").await, world.live(&well).await), (500, 0));
    assert!(!hangs.is_finished());
    assert_eq!(world.receiver.receipts_at("/hanging").len(), 16);
    assert_eq!(world.value(ATTEMPTS, &hanging).await, json!({"0": 500}));
    hangs.abort();
}
