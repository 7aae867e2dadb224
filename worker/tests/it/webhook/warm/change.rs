//! A webhook that is changed while its lane is warm.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use longshore_domain::webhook::{delivery, subscription};
use longshore_kernel::problem::Problem;
use longshore_worker::lanes;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{
    Holder, announce, changes, hand_over, is_leased, notices, registration, token, until, warm_lane,
};
use crate::webhook::rotation::{rotate, signed_by_both};
use crate::webhook::support::{Hook, PATIENCE, World};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// Changes beside which the webhook is changed.
const CHANGES: usize = 400;

/// Makes changes one after the other until `end`; returns how many.
async fn keep_changing(world: &World, hook: &Hook, end: impl AsyncFnOnce()) -> usize {
    let mut made = 0;
    let mut end = std::pin::pin!(end());
    for _ in 0..CHANGES {
        let hints = changes(world, hook, 1).await;
        hand_over(world, hints);
        made += 1;
        if futures::poll!(end.as_mut()).is_ready() {
            return made;
        }
    }
    end.await;
    made
}

/// When the attempts of a webhook began, by the clock of Postgres.
async fn begun(world: &World, hook: &Hook) -> Vec<DateTime<Utc>> {
    sqlx::query_scalar(
        "SELECT (attempts -> 0 ->> 'at')::timestamptz FROM delivery_history WHERE webhook_id = $1 AND state = 'delivered'",
    )
    .bind(hook.id)
    .fetch_all(&world.pool)
    .await
    .unwrap()
}

/// Waits until a holder with that name has sent what it is told last, so that it has read all that it was told before.
async fn send_behind(world: &World, holder: &Holder, name: &str) {
    let other = world.hook("/other", json!({})).await;
    holder.warm(world, &other).await;
    let (theirs, _) = registration(world, &other).await.unwrap();
    let behind = changes(world, &other, 1).await;
    announce(world, name, other.id, theirs, behind[0].notice().unwrap()).await;
    until("what is behind is sent", async || world.receiver.receipts_at("/other").len() == 2).await;
}

async fn now(world: &World) -> DateTime<Utc> {
    sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(&world.pool).await.unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn nothing_begins_after_a_deactivation_was_answered(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, hook, holder) = warm_lane(&options, json!({})).await;
    let (former, name) = registration(&world, &hook).await.unwrap();
    let mut answered = None;
    let made = keep_changing(&world, &hook, async || {
        world.receiver.wait_for(20, PATIENCE).await.unwrap();
        subscription::set_active(&world.services, &world.context(), hook.id, false).await.unwrap();
        answered = Some(now(&world).await);
    })
    .await;
    let answered = answered.unwrap();
    // entries that are still on their way
    let waiting = changes(&world, &hook, 3).await;
    for hint in &waiting {
        announce(&world, &name, hook.id, former, hint.notice().unwrap()).await;
    }
    send_behind(&world, &holder, &name).await;
    until("all outcomes are recorded", async || {
        usize::try_from(world.ended(&hook, "delivered").await).unwrap()
            == world.receiver.receipts_at("/hook").len()
    })
    .await;
    assert!(begun(&world, &hook).await.into_iter().all(|at| at <= answered));
    assert!(!is_leased(&world, &hook).await);
    subscription::set_active(&world.services, &world.context(), hook.id, true).await.unwrap();
    until("the rest is sent", async || {
        lanes::run(&holder.context, hook.id).await.unwrap();
        usize::try_from(world.ended(&hook, "delivered").await).unwrap() == 1 + made + 3
    })
    .await;
    let counts = world.receiver.counts_by("webhook-id");
    assert!(counts.values().all(|sent| *sent == 1));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn nothing_begins_after_a_deletion_was_answered(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, hook, holder) = warm_lane(&options, json!({})).await;
    let (former, name) = registration(&world, &hook).await.unwrap();
    let waiting = {
        let mut open = world.pool.begin().await.unwrap();
        world.events_in(&mut open, &hook, 1).await;
        notices(&mut open, &hook).await
    };
    let mut answered = None;
    keep_changing(&world, &hook, async || {
        world.receiver.wait_for(20, PATIENCE).await.unwrap();
        subscription::delete(&world.services, &world.context(), hook.id).await.unwrap();
        answered = Some(now(&world).await);
    })
    .await;
    announce(&world, &name, hook.id, former, &waiting[0].1).await;
    send_behind(&world, &holder, &name).await;
    assert!(begun(&world, &hook).await.into_iter().all(|at| at <= answered.unwrap()));
    let sent = world.receiver.receipts();
    let event: Value = serde_json::from_str(&waiting[0].1).unwrap();
    assert!(sent.iter().all(|receipt| receipt.header("webhook-id") != event["event"].as_str()));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_change_of_an_idle_warm_lane_is_answered_soon(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let holder = Holder::start(&world);
    let (a, b) = (world.hook("/a", json!({})).await, world.hook("/b", json!({})).await);
    holder.warm(&world, &a).await;
    holder.warm(&world, &b).await;
    let began = Instant::now();
    subscription::set_active(&world.services, &world.context(), a.id, false).await.unwrap();
    subscription::delete(&world.services, &world.context(), b.id).await.unwrap();
    // each would else wait for the next renewal, and so a second on average for both
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(!is_leased(&world, &a).await);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_lease_that_begins_beside_a_deactivation_sends_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.events(&hook, 1).await;
    // a lease that has read the webhook as it was waits for the lane, or passes it by
    let mut changing = world.pool.begin().await.unwrap();
    for statement in [
        "UPDATE webhook SET active = false, rotations = rotations + 1, version = version + 1",
        "UPDATE webhook_lane SET rotations = rotations + 1",
    ] {
        sqlx::query(statement).execute(&mut *changing).await.unwrap();
    }
    assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), lanes::Ran::NotLeased);
    changing.commit().await.unwrap();
    assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), lanes::Ran::NotLeased);
    assert_eq!(world.receiver.requests(), 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_change_after_a_new_destination_goes_there(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, hook, holder) = warm_lane(&options, json!({})).await;
    for n in 0..5 {
        let path = format!("/new{n}");
        let lease = token(&world, &hook).await;
        let body = json!({"destination": world.receiver.url(&path)});
        subscription::update(&world.services, &world.context(), hook.id, body, |_| Ok::<_, Problem>(()))
            .await
            .unwrap();
        hand_over(&world, changes(&world, &hook, 1).await);
        until("it is sent", async || {
            lanes::run(&holder.context, hook.id).await.unwrap();
            world.receiver.receipts_at(&path).len() == 1
        })
        .await;
        assert_ne!(token(&world, &hook).await, lease);
    }
    until("all is recorded", async || world.ended(&hook, "delivered").await == 6).await;
    assert_eq!(world.receiver.requests(), 6);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_call_after_a_rotation_was_answered_has_both_signatures(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, hook, holder) = warm_lane(&options, json!({})).await;
    let mut rotated = None;
    let running = async {
        // what the queue would do
        while world.receiver.requests() < 100 {
            lanes::run(&holder.context, hook.id).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let changing = keep_changing(&world, &hook, async || {
        world.receiver.wait_for(20, PATIENCE).await.unwrap();
        rotated = Some((rotate(&world, &hook).await, now(&world).await));
        world.receiver.wait_for(100, PATIENCE).await.unwrap();
    });
    let (made, ()) = tokio::join!(changing, running);
    let (new, answered) = rotated.unwrap();
    until("all is sent", async || {
        lanes::run(&holder.context, hook.id).await.unwrap();
        usize::try_from(world.ended(&hook, "delivered").await).unwrap() == made + 1
    })
    .await;
    assert!(signed_by_both(&world, &hook, &new, answered).await > 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_example_is_marked_on_a_warm_lane_and_the_changes_around_it_are_not(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, hook, _holder) = warm_lane(&options, json!({})).await;
    let lease = token(&world, &hook).await;
    let before = world.receiver.requests();
    hand_over(&world, changes(&world, &hook, 1).await);
    world.receiver.wait_for(before + 1, PATIENCE).await.unwrap();
    let event = Some(json!({"event": "product_change"}));
    delivery::send_test(&world.services, &world.context(), hook.id, event).await.unwrap();
    world.receiver.wait_for(before + 2, PATIENCE).await.unwrap();
    hand_over(&world, changes(&world, &hook, 1).await);
    world.receiver.wait_for(before + 3, PATIENCE).await.unwrap();
    assert_eq!(token(&world, &hook).await, lease, "nothing was leased again");
    let receipts = world.receiver.receipts();
    let bodies = receipts.iter().rev().take(3).map(|receipt| receipt.json().unwrap());
    let marks: Vec<_> = bodies.map(|body| body.get("test").cloned()).collect();
    assert_eq!(marks, [None, Some(json!(true)), None]);
}
