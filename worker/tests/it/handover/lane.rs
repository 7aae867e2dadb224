//! The lane of a wms: leases, faults, pauses, and what makes orders due.

use std::sync::Arc;

use longshore_domain::calling::Renewed;
use longshore_domain::expedition::handover::call;
use longshore_domain::expedition::handover::lane;
use longshore_domain::expedition::handover::outcome::{self, Answer};
use longshore_domain::expedition::progress;
use longshore_domain::standing;
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::queue::Queue;
use longshore_testkit::services::until_locked;
use longshore_testkit::wms::{Mischief, On};
use longshore_worker::handover::{self, Ran};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{Depot, PATIENCE, ROLLBACK, SEND, outcome_of};

/// Warehouses whose orders wait for a call or its answer, and those of them that can be called now, as the state of the queue shows
/// them.
async fn recorded(depot: &Depot) -> (Option<i64>, Option<i64>) {
    let standing = standing::read(&depot.place.world.services).await.unwrap();
    let queue = standing.queues.iter().find(|queue| queue.wish.queue == Queue::Handover).unwrap();
    (queue.recorded.open, queue.recorded.due)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn orders_are_handed_over_in_turn(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::by_hand(&options).await;
    depot.store(json!({"maxInFlight": 1})).await;
    let mut orders = Vec::new();
    for (number, priority) in [("1", 0), ("2", 5), ("3", 0), ("4", 9)] {
        let mut body = depot.place.body(number, &[(0, 1)]);
        (body["send"], body["priority"]) = (json!(true), json!(priority));
        depot.place.create(body).await.unwrap();
        orders.push(number);
    }
    depot.drain().await;
    let asked = depot.system.asked();
    let book = depot.system.book();
    let came: Vec<_> = asked
        .iter()
        .map(|asked| book[&asked.expedition.unwrap()].order["orderNumber"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(came, ["4", "2", "1", "3"]);
    assert_eq!(depot.system.peak_in_flight(), 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_was_ready_before_the_setting_was_switched_on_becomes_due(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::by_hand(&options).await;
    let order = depot.send("A-1").await;
    depot.must_be(order, "awaiting_processing", None).await;
    depot.store(json!({"active": false})).await;
    assert_eq!(depot.fill().await, 0);
    let by_hand = depot.send("A-2").await;
    depot.must_be(by_hand, "awaiting_processing", None).await;
    // a transaction that looked at the setting before it was switched on
    let mut late = depot.place.world.owner.begin().await.unwrap();
    sqlx::query("UPDATE expedition SET status = 'on_hold', version = version + 1 WHERE id = $1")
        .bind(by_hand)
        .execute(&mut *late)
        .await
        .unwrap();
    sqlx::query("UPDATE expedition SET status = 'awaiting_processing', version = version + 1 WHERE id = $1")
        .bind(by_hand)
        .execute(&mut *late)
        .await
        .unwrap();
    depot.store(json!({})).await;
    assert_eq!(depot.fill().await, 1);
    assert_eq!(depot.fill().await, 0);
    late.commit().await.unwrap();
    assert_eq!(depot.fill().await, 1);
    assert_eq!(depot.fill().await, 0);
    // it ends once no transaction is left that was running then, in any database of the server
    let ended = async {
        while sqlx::query_scalar("SELECT fills FROM wms_setting")
            .fetch_one(&depot.place.world.owner)
            .await
            .unwrap()
        {
            assert_eq!(depot.fill().await, 0);
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
    depot.drain().await;
    for order in [order, by_hand] {
        depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn orders_that_are_older_than_the_setting_says_go_on_by_hand(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::by_hand(&options).await;
    let (old, older, new) = (depot.send("A-1").await, depot.send("A-2").await, depot.send("A-3").await);
    let by_hand = "awaiting_processing";
    // before it is switched on, it says how many orders will be handed over
    let shown = depot.store(json!({"active": false})).await;
    assert_eq!((&shown["toHandOver"], &shown["since"]), (&json!(3), &json!(null)));
    let since = depot.record(new).await["createdAt"].clone();
    let shown = depot.store(json!({"since": since})).await;
    assert_eq!((&shown["toHandOver"], &shown["since"]), (&json!(1), &since));
    assert_eq!(depot.fill().await, 1);
    depot.drain().await;
    depot.must_be(new, by_hand, Some("accepted")).await;
    // also what becomes so later; and it is reported by hand
    depot.command(old, &ROLLBACK).await.unwrap();
    depot.command(old, &SEND).await.unwrap();
    depot.must_be(old, by_hand, None).await;
    let world = &depot.place.world;
    let report = json!({"status": "take_out"});
    progress::report(&world.services, &world.context, old, report, |_| Ok(())).await.unwrap();
    assert_eq!(depot.fill().await, 0);
    // left out, it stays; without it, the older one is due, and not called yet
    assert_eq!(depot.store(json!({"maxInFlight": 4})).await["since"], since);
    let shown = depot.store(json!({"since": null, "paused": true})).await;
    assert_eq!(shown["toHandOver"], 1);
    assert_eq!(depot.fill().await, 1);
    depot.must_be(older, by_hand, Some("pending")).await;
    // with it, that goes on by hand again
    depot.store(json!({"since": since})).await;
    depot.fill().await;
    depot.must_be(older, by_hand, None).await;
    depot.drain().await;
    assert_eq!(depot.calls().len(), 1);
    depot.place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_inactive_or_paused_setting_calls_nothing(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let order = depot.send("A-1").await;
    for off in [json!({"paused": true}), json!({"active": false})] {
        depot.store(off).await;
        assert_eq!(depot.run().await, Ran::NotLeased);
        assert_eq!(lane::due(&depot.place.world.services.db).await.unwrap(), []);
    }
    depot.must_be(order, "awaiting_processing", Some("pending")).await;
    depot.store(json!({})).await;
    depot.drain().await;
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_a_dead_worker_had_begun_is_called_by_the_next(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let services = &depot.place.world.services;
    let order = depot.send("A-1").await;
    let lease = lane::lease(services, depot.wms).await.unwrap().unwrap();
    let begun = call::begin(&services.db, &lease, 8).await.unwrap();
    assert_eq!(begun.len(), 1);
    // it dies here. No other worker may call until its call must have ended
    depot.must_be(order, "awaiting_processing", Some("sending")).await;
    sqlx::query("UPDATE wms_lane SET leased_until = '-infinity'")
        .execute(&depot.place.world.owner)
        .await
        .unwrap();
    let next = depot.other_worker();
    handover::run(&next, depot.wms).await.unwrap();
    assert_eq!(depot.calls(), []);
    depot.time_passes().await;
    handover::run(&next, depot.wms).await.unwrap();
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    // what it says late, under its lost lease, changes nothing
    let late = outcome_of(&lease, &begun[0], Answer::Refused(json!([])));
    assert_eq!(outcome::record(services, &[late]).await.unwrap(), [outcome::Recorded::Stale]);
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_lane_is_leased_once(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let services = &depot.place.world.services;
    depot.send("A-1").await;
    let first = lane::lease(services, depot.wms).await.unwrap().unwrap();
    assert!(lane::lease(services, depot.wms).await.unwrap().is_none());
    assert!(lane::release(&services.db, &first).await.unwrap());
    let second = lane::lease(services, depot.wms).await.unwrap().unwrap();
    assert!(second.token > first.token);
    assert!(call::begin(&services.db, &first, 8).await.unwrap().is_empty());
    assert_eq!(call::begin(&services.db, &second, 8).await.unwrap().len(), 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_renewal_does_not_take_back_a_lane_that_was_released_meanwhile(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let (services, owner) = (&depot.place.world.services, &depot.place.world.owner);
    depot.send("A-1").await;
    let lease = Arc::new(lane::lease(services, depot.wms).await.unwrap().unwrap());
    assert_eq!(lane::renew(&services.db, &lease, false).await.unwrap(), Renewed::Yes);
    // the renewal waits for the release, which has not been committed
    let mut releasing = owner.begin().await.unwrap();
    sqlx::query("UPDATE wms_lane SET leased_until = '-infinity'").execute(&mut *releasing).await.unwrap();
    let (db, of) = (services.db.clone(), Arc::clone(&lease));
    let renewing = tokio::spawn(async move { lane::renew(&db, &of, false).await });
    until_locked(owner, 1).await.unwrap();
    releasing.commit().await.unwrap();
    assert_eq!(renewing.await.unwrap().unwrap(), Renewed::No);
    // nor does one that comes after it
    assert_eq!(lane::renew(&services.db, &lease, true).await.unwrap(), Renewed::No);
    let next = lane::lease(services, depot.wms).await.unwrap().unwrap();
    assert!(next.token > lease.token);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_failing_system_is_asked_by_one_probe(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::by_hand(&options).await;
    depot.store(json!({"maxInFlight": 1})).await;
    for n in 0..8 {
        depot.send(&n.to_string()).await;
    }
    depot.system.misbehave_in_turn(vec![Mischief::Status(503)]);
    depot.drain().await;
    assert_eq!(depot.calls().len(), 5, "the fifth failure opens the breaker");
    assert_eq!(depot.lane("failures").await.as_deref(), Some("5"));
    assert_eq!(depot.lane("error").await.as_deref(), Some("answered 503"));
    assert_eq!(depot.run().await, Ran::NotLeased);
    // the queue is not idle: the warehouse has orders that wait, and none can be called
    assert_eq!(recorded(&depot).await, (Some(1), Some(0)));
    depot.time_passes().await;
    assert_eq!(recorded(&depot).await, (Some(1), Some(1)));
    depot.drain().await;
    assert_eq!(depot.calls().len(), 6, "a probe is one call");
    assert_eq!(depot.lane("probes").await.as_deref(), Some("1"));
    depot.system.misbehave_in_turn(Vec::new());
    depot.time_passes().await;
    depot.drain().await;
    let accepted: i64 =
        sqlx::query_scalar("SELECT count(*) FROM expedition_handover WHERE handover_state = 'accepted'")
            .fetch_one(&depot.place.world.owner)
            .await
            .unwrap();
    assert_eq!(accepted, 8);
    assert_eq!(recorded(&depot).await, (Some(0), Some(0)));
    assert_eq!(depot.lane("failures").await.as_deref(), Some("0"));
    assert_eq!(depot.lane("error").await, None);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_system_that_asks_for_a_pause_gets_it(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    depot.send("A-1").await;
    depot.system.misbehave(On::Any, Mischief::RetryAfter(429, 120));
    depot.drain().await;
    depot.send("A-2").await;
    assert_eq!(depot.run().await, Ran::NotLeased);
    assert_eq!(depot.calls().len(), 1);
    let shown = longshore_domain::expedition::handover::setting::find(
        &depot.place.world.services,
        depot.place.world.context.scope(),
        depot.wms,
    );
    let shown: serde_json::Value = serde_json::from_str(&shown.await.unwrap().body.unwrap()).unwrap();
    assert!(shown["blockedUntil"].is_string(), "{shown}");
    assert_eq!(shown["lastError"]["message"], "answered 429");
    assert_eq!(shown["waiting"], 2);
    depot.time_passes().await;
    depot.drain().await;
    assert_eq!(depot.calls().len(), 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn as_many_calls_are_under_way_as_the_setting_allows(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::by_hand(&options).await;
    depot.store(json!({"maxInFlight": 4})).await;
    for n in 0..12 {
        depot.send(&n.to_string()).await;
    }
    depot.system.misbehave_in_turn(vec![Mischief::Late(std::time::Duration::from_millis(200))]);
    depot.drain().await;
    assert_eq!(depot.calls().len(), 12);
    assert_eq!(depot.system.peak_in_flight(), 4);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_worker_that_stops_gives_back_what_it_did_not_call(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::by_hand(&options).await;
    depot.store(json!({"maxInFlight": 1})).await;
    for n in 0..4 {
        depot.send(&n.to_string()).await;
    }
    depot.system.misbehave(On::Any, Mischief::Late(std::time::Duration::from_millis(500)));
    let run = depot.run();
    let stop = async {
        depot.system.wait_until(PATIENCE, |_, asked| !asked.is_empty()).await.unwrap();
        depot.worker.stop.cancel();
    };
    tokio::join!(run, stop);
    let mut states: Vec<String> = sqlx::query_scalar("SELECT handover_state FROM expedition_handover")
        .fetch_all(&depot.place.world.owner)
        .await
        .unwrap();
    states.sort();
    assert_eq!(states, ["accepted", "pending", "pending", "pending"]);
}
