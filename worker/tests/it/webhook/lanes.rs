//! Lanes: fairness, order, discovery of due work, and the four faults of the prototype.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::join_all;
use longshore_domain::webhook::lane;
use longshore_kernel::ids::EventId;
use longshore_testkit::receiver::{Answer, Gate, Receiver};
use longshore_testkit::services;
use longshore_worker::lanes::{self, CALLS_AT_HOST, Crowd, Ran};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{PATIENCE, World, worker};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// Connections of a service with a small pool.
const CONNECTIONS: u32 = 2;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn hundreds_of_lanes_that_are_due_at_once_send_each_delivery_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let mut hooks = Vec::new();
    for n in 0..300 {
        let hook = world.hook(&format!("/{n}"), json!({})).await;
        world.events(&hook, 1 + n % 2).await;
        hooks.push(hook);
    }
    // each twice, as when a lane is queued again while it begins
    let turns = hooks.iter().chain(&hooks).map(|hook| lanes::run(&world.worker, hook.id));
    for ran in join_all(turns).await {
        ran.unwrap();
    }
    for hook in &hooks {
        assert_eq!(world.live(hook).await, 0);
    }
    assert_eq!(world.receiver.requests(), 450);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_hundred_lanes_run_with_a_small_pool(_: PgPoolOptions, options: PgConnectOptions) {
    // more than a lane fetches at once
    const EACH: i32 = 210;
    let services = services::with_connections(&options, CONNECTIONS).unwrap();
    let world = World::over(services, &options, Receiver::counting().await.unwrap()).await;
    let mut hooks = Vec::new();
    for n in 0..100 {
        let hook = world.hook(&format!("/{n}"), json!({})).await;
        world.events(&hook, EACH).await;
        hooks.push(hook);
    }
    tokio::time::timeout(Duration::from_mins(5), join_all(hooks.iter().map(|hook| world.drain(hook))))
        .await
        .unwrap();
    let counts = world.receiver.counts_by("webhook-id");
    assert_eq!(counts.len(), 21_000);
    assert!(counts.values().all(|n| *n == 1));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn nothing_is_sent_twice_while_events_keep_coming(_: PgPoolOptions, options: PgConnectOptions) {
    let world =
        World::over(services::for_test(&options).unwrap(), &options, Receiver::counting().await.unwrap())
            .await;
    let hook = world.hook("/hook", json!({})).await;
    let coming = async {
        for _ in 0..300 {
            world.events(&hook, 20).await;
        }
    };
    let sending = async {
        while world.receiver.wait_for_ids(6_000, Duration::ZERO).await.is_err() {
            lanes::run(&world.worker, hook.id).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_mins(1), async { tokio::join!(coming, sending) }).await.unwrap();
    world.drain(&hook).await;
    assert_eq!(world.live(&hook).await, 0);
    let counts = world.receiver.counts_by("webhook-id");
    assert_eq!(counts.len(), 6_000);
    assert_eq!(counts.values().filter(|n| **n > 1).count(), 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_statement_planned_on_an_empty_queue_does_not_read_a_full_one(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    // one scan of the queue would show; and what is due takes enough batches that every statement has its generic plan
    const LATER: i32 = 18_000;
    const DUE: i32 = 4_000;
    let services = services::with_connections(&options, CONNECTIONS).unwrap();
    let world = World::over(services, &options, Receiver::counting().await.unwrap()).await;
    let hook = world.hook("/hook", json!({})).await;
    // statements are planned while the statistics say that the tables are empty
    sqlx::query("VACUUM ANALYZE delivery, event").execute(&world.pool).await.unwrap();
    world.events(&hook, 1).await;
    world.drain(&hook).await;
    world.events(&hook, LATER).await;
    sqlx::query("UPDATE delivery SET next_attempt_at = now() + interval '1 hour'")
        .execute(&world.pool)
        .await
        .unwrap();
    world.events(&hook, DUE).await;
    let before = scanned(&world).await;
    // if a busy machine delayed the renewal of a lease, another turn follows
    let all = async {
        while world.ended(&hook, "delivered").await < 1 + i64::from(DUE) {
            world.drain(&hook).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(2), all).await.unwrap();
    let scanned = scanned(&world).await - before;
    assert!(scanned < i64::from(LATER), "{scanned} rows were read by scans of the whole queue");
}

/// Rows of deliveries and events read by sequential scans so far.
async fn scanned(world: &World) -> i64 {
    // has all sessions publish what they read
    services::pages_looked_at(&world.services.db.main, CONNECTIONS, &world.pool).await.unwrap();
    sqlx::query_scalar(
        "SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relname ~ '^(delivery|event)(_[0-9]+|_default)?$'",
    )
    .fetch_one(&world.pool)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn due_lanes_are_found_page_by_page_and_only_those_that_can_run(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let mut hooks = Vec::new();
    for n in 0..7 {
        let hook = world.hook(&format!("/{n}"), json!({"ordered": n == 6})).await;
        world.events(&hook, 5).await;
        hooks.push(hook);
    }
    let (inactive, leased, later, held) = (&hooks[3], &hooks[4], &hooks[5], &hooks[6]);
    sqlx::query("UPDATE webhook SET active = false WHERE id = $1")
        .bind(inactive.id)
        .execute(&world.pool)
        .await
        .unwrap();
    let _lease = world.lease(leased).await;
    sqlx::query("UPDATE delivery SET next_attempt_at = now() + interval '1 hour' WHERE webhook_id = $1")
        .bind(later.id)
        .execute(&world.pool)
        .await
        .unwrap();
    sqlx::query(
        "UPDATE delivery SET attempt_count = 1, next_attempt_at = now() + interval '1 hour'
                 WHERE id = (SELECT id FROM delivery WHERE webhook_id = $1 ORDER BY created_at LIMIT 1)",
    )
    .bind(held.id)
    .execute(&world.pool)
    .await
    .unwrap();
    let mut found = Vec::new();
    let mut after = None;
    let mut pages = 0;
    loop {
        let scan = lane::due(&world.services.db, after, 2).await.unwrap();
        assert!(scan.lanes.len() <= 2);
        found.extend(scan.lanes);
        pages += 1;
        let Some(next) = scan.resume_after else { break };
        after = Some(next);
    }
    assert_eq!(found, hooks[..3].iter().map(|h| h.id).collect::<Vec<_>>());
    assert_eq!(pages, 4);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_retry_is_found_once_when_it_becomes_due_if_its_lane_can_run(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let db = &world.services.db;
    let mut hooks = Vec::new();
    for n in 0..6 {
        let hook = world.hook(&format!("/{n}"), json!({})).await;
        world.events(&hook, 3).await;
        hooks.push(hook);
    }
    let (fresh, inactive, leased, probed) = (&hooks[2], &hooks[3], &hooks[4], &hooks[5]);
    for (change, hook) in [
        ("UPDATE webhook SET active = false WHERE id = $1", inactive),
        (
            "UPDATE webhook_lane SET failures = 5, failing_since = now(), probe_at = now() + interval '1 hour'
             WHERE webhook_id = $1",
            probed,
        ),
        ("DELETE FROM delivery WHERE webhook_id = $1", fresh),
    ] {
        sqlx::query(change).bind(hook.id).execute(&world.pool).await.unwrap();
    }
    world.events(fresh, 1).await;
    let _lease = world.lease(leased).await;
    let begin = lane::retries(db, None, 100).await.unwrap();
    assert!(begin.lanes.is_empty(), "nothing was asked for yet");
    assert!(!begin.soon, "nothing has failed yet");
    // all but the new one have failed once, and are due a moment after the look
    sqlx::query(
        "UPDATE delivery SET attempt_count = 1, next_attempt_at = $2 + interval '1 microsecond' WHERE webhook_id <> $1",
    )
    .bind(fresh.id)
    .bind(begin.until)
    .execute(&world.pool)
    .await
    .unwrap();

    let found = lane::retries(db, Some(begin.until), 100).await.unwrap();
    let mut lanes = found.lanes.clone();
    lanes.sort_unstable();
    assert_eq!(lanes, [hooks[0].id, hooks[1].id]);
    assert!(lane::retries(db, Some(found.until), 100).await.unwrap().lanes.is_empty());

    // a look that is cut short continues where it ended
    let most = lane::retries(db, Some(begin.until), 15).await.unwrap();
    assert!(most.until > begin.until && most.until < found.until);

    for (later, soon) in [("1 second", true), ("1 hour", false)] {
        let wait = format!("UPDATE delivery SET next_attempt_at = now() + interval '{later}'");
        sqlx::query(sqlx::AssertSqlSafe(wait)).execute(&world.pool).await.unwrap();
        assert_eq!(lane::retries(db, Some(found.until), 100).await.unwrap().soon, soon, "{later}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_webhooks_of_an_organisation_have_no_more_calls_at_one_host_than_one_may(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let gate = world.receiver.hold("/held", Answer::Status(204));
    let hooks =
        join_all((0..8).map(|_| world.hook("/held", json!({"maxInFlight": CALLS_AT_HOST / 4})))).await;
    let wanted = i32::try_from(CALLS_AT_HOST / 4).unwrap();
    join_all(hooks.iter().map(|hook| world.events(hook, wanted))).await;
    let most = u64::try_from(CALLS_AT_HOST).unwrap();
    let neighbours = async {
        world.receiver.wait_for(most, PATIENCE).await.unwrap();
        // another organisation calls the same host at once
        let receiver = Receiver::start().await.unwrap();
        let other = World::over(world.services.clone(), &options, receiver).await;
        let hook = other.hook_at(&world.receiver.url("/other"), "/other", json!({})).await;
        other.events(&hook, 1).await;
        lanes::run(&world.worker, hook.id).await.unwrap();
        assert_eq!(other.live(&hook).await, 0);
        assert_eq!(world.receiver.requests(), most + 1);
        gate.open();
    };
    tokio::join!(join_all(hooks.iter().map(|hook| world.drain(hook))), neighbours);
    for hook in &hooks {
        // what its slice left in the queue
        world.drain(hook).await;
        assert_eq!(world.live(hook).await, 0);
    }
    assert_eq!(world.receiver.requests(), 2 * most + 1);
    assert!(world.receiver.peak_in_flight() <= most + 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn never_more_than_max_in_flight_are_under_way(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 3})).await;
    let gate = world.receiver.hold("/hook", Answer::Status(204));
    world.events(&hook, 30).await;
    let opening = async {
        world.receiver.wait_for(3, PATIENCE).await.unwrap();
        gate.open();
    };
    tokio::join!(world.drain(&hook), opening);
    assert_eq!(world.receiver.requests(), 30);
    assert_eq!(world.receiver.peak_in_flight(), 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn lanes_that_run_side_by_side_begin_few_calls_each(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    assert_eq!(under_way_of_five_held_lanes(&world, Crowd::new(2, PATIENCE), 10).await, 10);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_lane_reaches_its_maximum_of_calls_if_destinations_are_slow(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    // the maximum of all lanes, although no call was answered
    let crowd = Crowd::new(2, Duration::from_millis(1));
    assert_eq!(under_way_of_five_held_lanes(&world, crowd, 20).await, 20);
}

/// The peak of concurrent calls of five lanes with ten deliveries each and a maximum of four, to destinations
/// that answer after `calls` calls.
async fn under_way_of_five_held_lanes(world: &World, crowd: Crowd, calls: u64) -> u64 {
    let gate = world.receiver.hold("/held", Answer::Status(204));
    let mut hooks = Vec::new();
    for _ in 0..5 {
        let hook = world.hook("/held", json!({"maxInFlight": 4})).await;
        world.events(&hook, 10).await;
        hooks.push(hook);
    }
    let mut crowded = world.worker.clone();
    crowded.crowd = crowd;
    let opening = async {
        world.receiver.wait_for(calls, PATIENCE).await.unwrap();
        gate.open();
    };
    let turns = hooks.iter().map(|hook| lanes::run(&crowded, hook.id));
    let (ran, ()) = tokio::join!(join_all(turns), opening);
    assert!(ran.into_iter().all(|ran| ran.unwrap() == Ran::Done));
    assert_eq!(world.receiver.requests(), 50);
    world.receiver.peak_in_flight()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_ordered_lane_keeps_the_order_and_a_failing_head_holds_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"ordered": true})).await;
    let ok = Answer::Status(204);
    world.receiver.answer(
        "/hook",
        Answer::Sequence(vec![ok.clone(), ok.clone(), Answer::Status(500), Answer::Status(500), ok]),
    );
    let events = world.events(&hook, 300).await;
    world.drain(&hook).await;
    assert_eq!(world.receiver.requests(), 3, "the third failed, and holds the rest");
    world.drain(&hook).await;
    assert_eq!(world.receiver.requests(), 3, "until it is due again");
    for _ in 0..2 {
        world.make_due(&hook).await;
        world.drain(&hook).await;
    }
    let outcomes: Vec<_> =
        world.receiver.receipts().iter().map(|r| r.header("webhook-id").unwrap().to_owned()).collect();
    let mut expected: Vec<_> = events.iter().map(EventId::to_string).collect();
    expected.insert(2, expected[2].clone());
    expected.insert(2, expected[2].clone());
    assert_eq!(outcomes, expected);
    assert_eq!(world.receiver.peak_in_flight(), 1);
    assert_eq!(world.live(&hook).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_call_that_hangs_takes_one_slot_of_its_lane_and_delays_no_other_lane(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (slow, dead, well) = (
        world.hook("/slow", json!({"maxInFlight": 2})).await,
        world.hook("/dead", json!({})).await,
        world.hook("/well", json!({})).await,
    );
    let gate = Gate::closed();
    let held = Answer::Gated(gate.clone(), Box::new(Answer::Status(204)));
    world.receiver.answer("/slow", Answer::Sequence(vec![held.clone(), Answer::Status(204)]));
    world.receiver.answer("/dead", held);
    for hook in [&slow, &dead, &well] {
        world.events(hook, 500).await;
    }
    let others = async {
        // all but the one that hangs, and those that come meanwhile
        world
            .receiver
            .wait_until(PATIENCE, |seen| at(seen, "/slow") == 500 && at(seen, "/well") == 500)
            .await
            .unwrap();
        world.events(&slow, 1).await;
        world.receiver.wait_until(PATIENCE, |seen| at(seen, "/slow") == 501).await.unwrap();
        gate.open();
    };
    tokio::join!(world.drain(&slow), world.drain(&dead), world.drain(&well), others);
    for (hook, count) in [(&slow, 501), (&dead, 500), (&well, 500)] {
        assert_eq!(world.ended(hook, "delivered").await, count, "{}", hook.path);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn deliveries_under_way_are_not_sent_again_when_older_ones_become_visible(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    const UNDER_WAY: usize = 8;
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    let gate = Gate::closed();
    let mut answers = vec![Answer::Gated(gate.clone(), Box::new(Answer::Status(204))); UNDER_WAY];
    answers.push(Answer::Status(204));
    world.receiver.answer("/hook", Answer::Sequence(answers));
    world.events(&hook, 8).await;
    let older = async {
        world.receiver.wait_for(8, PATIENCE).await.unwrap();
        // more than one batch, from a transaction that began earlier
        let mut tx = world.pool.begin().await.unwrap();
        world.events_in(&mut tx, &hook, 300).await;
        sqlx::query(
            "UPDATE delivery SET next_attempt_at = next_attempt_at - interval '1 hour'
             WHERE webhook_id = $1 AND xmin = pg_current_xact_id()::xid",
        )
        .bind(hook.id)
        .execute(&mut *tx)
        .await
        .unwrap();
        tx.commit().await.unwrap();
        assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), Ran::NotLeased);
        world.receiver.wait_for(308, PATIENCE).await.unwrap();
        gate.open();
    };
    tokio::join!(world.drain(&hook), older);
    assert_eq!((world.ended(&hook, "delivered").await, world.receiver.requests()), (308, 308));
}

fn at(seen: &longshore_testkit::receiver::Seen, path: &str) -> usize {
    seen.receipts
        .iter()
        .filter(|r| r.path == path)
        .map(|r| r.header("webhook-id").unwrap())
        .collect::<HashSet<_>>()
        .len()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_worker_that_stops_finishes_its_calls_and_releases_its_lease(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 2})).await;
    let gate = world.receiver.hold("/hook", Answer::Status(204));
    world.events(&hook, 10).await;
    let stopping = worker(&world.services);
    let stop = async {
        world.receiver.wait_for(2, PATIENCE).await.unwrap();
        stopping.stop.cancel();
        gate.open();
    };
    let (ran, ()) = tokio::join!(lanes::run(&stopping, hook.id), stop);
    assert_eq!(ran.unwrap(), Ran::More);
    assert_eq!((world.receiver.requests(), world.ended(&hook, "delivered").await), (2, 2));
    assert_eq!(lane::due(&world.services.db, None, 10).await.unwrap().lanes, [hook.id]);
}
