//! Rotation of a secret while calls of the lane are under way.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use longshore_domain::calling::{LEASE, Renewed};
use longshore_domain::webhook::lane;
use longshore_domain::webhook::subscription;
use longshore_testkit::receiver::Answer;
use longshore_testkit::services;
use longshore_testkit::signature::Verifier;
use longshore_worker::lanes;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{Hook, PATIENCE, World};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

pub(super) async fn rotate(world: &World, hook: &Hook) -> Verifier {
    let answer = subscription::rotate_secret(&world.services, &world.context(), hook.id).await.unwrap();
    let shown: Value = serde_json::from_str(&answer.body.unwrap()).unwrap();
    Verifier::new(shown["secret"].as_str().unwrap()).unwrap()
}

/// Checks that each event was sent once, and that the calls which began after the answer to a rotation have both signatures; returns
/// how many these are.
pub(super) async fn signed_by_both(
    world: &World,
    hook: &Hook,
    new: &Verifier,
    answered: DateTime<Utc>,
) -> usize {
    let begun: Vec<(String, bool)> = sqlx::query_as(
        "SELECT event_id::text, (attempts -> 0 ->> 'at')::timestamptz > $2 FROM delivery_history WHERE webhook_id = $1",
    )
    .bind(hook.id)
    .bind(answered)
    .fetch_all(&world.pool)
    .await
    .unwrap();
    let after: HashMap<String, bool> = begun.into_iter().collect();
    let mut checked = 0;
    for receipt in world.receiver.receipts() {
        hook.verifier.verify(&receipt).unwrap();
        if after[receipt.header("webhook-id").unwrap()] {
            new.verify(&receipt).unwrap();
            checked += 1;
        }
    }
    assert!(world.receiver.counts_by("webhook-id").into_values().all(|calls| calls == 1));
    checked
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_call_that_begins_after_a_rotation_was_answered_has_both_signatures(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 16})).await;
    world.receiver.answer("/hook", Answer::After(Duration::from_millis(20), Box::new(Answer::Status(204))));
    world.events(&hook, 3_000).await;
    let rotating = async {
        world.receiver.wait_for(100, PATIENCE).await.unwrap();
        let new = rotate(&world, &hook).await;
        (new, world.services.clock.now())
    };
    let ((new, answered), ()) = tokio::join!(rotating, world.drain(&hook));

    assert_eq!(world.ended(&hook, "delivered").await, 3_000);
    let checked = signed_by_both(&world, &hook, &new, answered).await;
    assert!(checked > 100, "{checked} calls began after the answer");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn calls_under_way_do_not_delay_a_rotation(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 2})).await;
    let gate = world.receiver.hold("/hook", Answer::Status(204));
    world.events(&hook, 10).await;
    let rotating = async {
        world.receiver.wait_for(2, PATIENCE).await.unwrap();
        let new = rotate(&world, &hook).await;
        gate.open();
        new
    };
    let (_, new) = tokio::join!(lanes::run(&world.worker, hook.id), rotating);
    world.drain(&hook).await;
    let receipts = world.receiver.receipts();
    assert_eq!(receipts.len(), 10, "what was under way is sent once");
    assert!(receipts[2..].iter().all(|receipt| new.verify(receipt).is_ok()));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_rotation_waits_no_longer_than_a_lease_for_a_worker_that_is_gone(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (hook, idle) = (world.hook("/hook", json!({})).await, world.hook("/idle", json!({})).await);
    let began = Instant::now();
    rotate(&world, &idle).await;
    assert!(began.elapsed() < LEASE, "an idle lane holds up nothing");
    // no worker renews it
    let abandoned = world.lease(&hook).await;
    let began = Instant::now();
    rotate(&world, &hook).await;
    let alive: bool = sqlx::query_scalar("SELECT leased_until > now() FROM webhook_lane WHERE token = $1")
        .bind(abandoned.token)
        .fetch_one(&world.pool)
        .await
        .unwrap();
    assert!(!alive, "its holder may have begun a call");
    assert!(began.elapsed() < LEASE * 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_renewal_that_began_before_a_rotation_was_committed_reports_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    let lease = world.lease(&hook).await;
    let mut rotating = world.pool.begin().await.unwrap();
    for statement in [
        "UPDATE webhook SET rotations = rotations + 1, changed_at = now()",
        "UPDATE webhook_lane SET rotations = rotations + 1",
    ] {
        sqlx::query(statement).execute(&mut *rotating).await.unwrap();
    }
    let db = world.services.db.clone();
    // it reads the webhook before the change, and waits for its lane
    let renewing = tokio::spawn(async move { lane::renew(&db, &lease, false).await });
    services::until_locked(&world.pool, 1).await.unwrap();
    rotating.commit().await.unwrap();
    assert_eq!(renewing.await.unwrap().unwrap(), Renewed::ToEnd);
}
