//! Holders that die or stand still, a Redis that forgets, a destination that fails.

use std::time::Duration;

use longshore_kernel::queue::Queue;
use longshore_testkit::process::{self, Process};
use longshore_testkit::receiver::Answer;
use longshore_worker::lanes;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tempfile::TempDir;

use super::{changes, hand_over, is_leased, notices, registration, token, until, warm_lane};
use crate::program;
use crate::webhook::support::{Hook, PATIENCE, World};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// A worker in a process, on the queues of a world.
fn start(world: &World, options: &PgConnectOptions, folder: &TempDir, name: &str) -> Process {
    program::start(options, world.services.queues.prefix(), folder, name)
}

/// Waits until a worker of another process keeps the lane warm; returns the token of its lease.
async fn warmed(world: &World, hook: &Hook) -> i64 {
    hand_over(world, changes(world, hook, 1).await);
    until("the lane is warm", async || registration(world, hook).await.is_some()).await;
    until("the first is sent", async || world.live(hook).await == 0).await;
    registration(world, hook).await.unwrap().0
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_on_its_way_to_a_killed_holder_is_sent_by_another(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, folder) = (World::new(&options).await, TempDir::new().unwrap());
    let hook = world.hook("/hook", json!({})).await;
    let first = start(&world, &options, &folder, "first");
    let lease = warmed(&world, &hook).await;
    let second = start(&world, &options, &folder, "second");
    process::kill(first.pid().unwrap()).await.unwrap();
    // these go to the stream of the dead
    hand_over(&world, changes(&world, &hook, 20).await);
    world.receiver.wait_for_ids(21, PATIENCE).await.unwrap();
    until("each is recorded", async || world.ended(&hook, "delivered").await == 21).await;
    assert!(token(&world, &hook).await > lease);
    assert_eq!(world.receiver.requests(), 21, "nothing was under way when it died");
    drop(second);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_holder_that_stood_still_past_its_lease_sends_nothing_more(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, folder) = (World::new(&options).await, TempDir::new().unwrap());
    let hook = world.hook("/hook", json!({})).await;
    let first = start(&world, &options, &folder, "first");
    let lease = warmed(&world, &hook).await;
    let _second = start(&world, &options, &folder, "second");
    process::signal("STOP", &[first.pid().unwrap()]).await.unwrap();
    hand_over(&world, changes(&world, &hook, 20).await);
    until("another has leased it", async || token(&world, &hook).await > lease).await;
    world.receiver.wait_for_ids(21, PATIENCE).await.unwrap();
    process::signal("CONT", &[first.pid().unwrap()]).await.unwrap();
    // it reads the entries that wait in its stream
    for _ in 0..10 {
        hand_over(&world, changes(&world, &hook, 2).await);
    }
    until("each is recorded", async || world.ended(&hook, "delivered").await == 41).await;
    assert_eq!(world.receiver.counts_by("webhook-id").len(), 41);
    assert_eq!(world.receiver.requests(), 41);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_emptied_redis_costs_a_second_and_no_change(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, hook, _holder) = warm_lane(&options, json!({})).await;
    let mut connection = world.services.queues.connection();
    for round in 0..20 {
        hand_over(&world, changes(&world, &hook, 3).await);
        let keys: Vec<String> = redis::cmd("KEYS")
            .arg(format!("{{{}q:lane}}:*", world.services.queues.prefix()))
            .query_async(&mut connection)
            .await
            .unwrap();
        if !keys.is_empty() {
            redis::cmd("DEL").arg(keys).exec_async(&mut connection).await.unwrap();
        }
        if round % 5 == 0 {
            until("it is registered again", async || registration(&world, &hook).await.is_some()).await;
        }
    }
    until("each is recorded", async || world.ended(&hook, "delivered").await == 61).await;
    assert_eq!(world.receiver.requests(), 61);
    assert_eq!(world.receiver.counts_by("webhook-id").len(), 61);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_breaker_that_opens_leaves_what_waits_to_the_probe(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, hook, holder) = warm_lane(&options, json!({"maxInFlight": 1})).await;
    world.receiver.answer("/hook", Answer::Status(500));
    hand_over(&world, changes(&world, &hook, 50).await);
    until("the lease is given back", async || !is_leased(&world, &hook).await).await;
    assert_eq!(world.receiver.requests(), 1 + 5);
    assert_eq!(world.live(&hook).await, 50);
    until("no holder is registered", async || registration(&world, &hook).await.is_none()).await;
    // nothing more is sent before the probe is due
    hand_over(&world, changes(&world, &hook, 1).await);
    until("it is an id on the queue", async || {
        world.services.queues.stats(Queue::Lane).await.unwrap().depth > 0
    })
    .await;
    assert_eq!(lanes::run(&holder.context, hook.id).await.unwrap(), lanes::Ran::NotLeased);
    world.receiver.answer("/hook", Answer::Status(204));
    until("each is recorded", async || {
        world.make_due(&hook).await;
        lanes::run(&holder.context, hook.id).await.unwrap();
        world.ended(&hook, "delivered").await == 52
    })
    .await;
    assert_eq!(world.receiver.requests(), 1 + 5 + 51);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_retry_in_a_warm_lane_is_sent_when_it_is_due(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, hook, holder) = warm_lane(&options, json!({})).await;
    world.receiver.answer("/hook", Answer::Sequence(vec![Answer::Status(500), Answer::Status(204)]));
    hand_over(&world, changes(&world, &hook, 1).await);
    world.receiver.wait_for(2, PATIENCE).await.unwrap();
    // whether the lane is still warm or not
    until("it is sent again", async || {
        world.make_due(&hook).await;
        lanes::run(&holder.context, hook.id).await.unwrap();
        world.receiver.requests() == 3
    })
    .await;
    until("it is recorded", async || world.ended(&hook, "delivered").await == 2).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_notice_beside_a_backlog_waits_for_its_row(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, hook, holder) = warm_lane(&options, json!({"maxInFlight": 1})).await;
    let (lease, name) = registration(&world, &hook).await.unwrap();
    let gate = world.receiver.hold("/hook", Answer::Status(204));
    // more than one fetch brings
    world.events(&hook, 500).await;
    world.receiver.wait_for(2, Duration::from_secs(10)).await.unwrap();
    let mut open = world.pool.begin().await.unwrap();
    world.events_in(&mut open, &hook, 1).await;
    let (_, notice) = notices(&mut open, &hook).await.pop().unwrap();
    super::announce(&world, &name, hook.id, lease, &notice).await;
    until("it is read", async || {
        let stream = world.services.queues.keys(Queue::Lane).of_holder(&name);
        let mut connection = world.services.queues.connection();
        redis::cmd("XLEN").arg(stream).query_async::<usize>(&mut connection).await.unwrap() == 0
    })
    .await;
    open.rollback().await.unwrap();
    gate.open();
    until("the backlog is sent", async || {
        lanes::run(&holder.context, hook.id).await.unwrap();
        world.ended(&hook, "delivered").await == 501
    })
    .await;
    assert_eq!(world.receiver.requests(), 501, "the contents were not used");
}
