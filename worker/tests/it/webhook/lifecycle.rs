//! Deliveries when their webhook is switched, changed or deleted, and redeliveries.

use longshore_domain::webhook::{delivery, lane, subscription};
use longshore_kernel::answer::Outcome;
use longshore_kernel::ids::DeliveryId;
use longshore_kernel::problem::Problem;
use longshore_testkit::receiver::Answer;
use longshore_testkit::signature::Verifier;
use longshore_worker::lanes::{self, Ran};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::time::timeout;

use super::support::{Hook, PATIENCE, World};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

async fn change(world: &World, hook: &Hook, body: Value) {
    subscription::update(&world.services, &world.context(), hook.id, body, |_| Ok::<_, Problem>(()))
        .await
        .unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_inactive_webhook_keeps_its_deliveries_and_activating_resumes_them(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"active": false})).await;
    world.events(&hook, 5).await;
    assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), Ran::NotLeased);
    assert_eq!((world.receiver.requests(), world.live(&hook).await), (0, 5));
    subscription::set_active(&world.services, &world.context(), hook.id, true).await.unwrap();
    world.drain(&hook).await;
    assert_eq!((world.receiver.requests(), world.live(&hook).await), (5, 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn activating_sends_what_waits_for_its_next_attempt(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let waits = "UPDATE delivery SET attempt_count = 5, next_attempt_at = now() + interval '5 hours'";
    for (path, count) in [("/switched", 2_500), ("/changed", 3)] {
        let hook = world.hook(path, json!({"active": false})).await;
        world.events(&hook, count).await;
        sqlx::query(waits).execute(&world.pool).await.unwrap();
        if path == "/switched" {
            subscription::set_active(&world.services, &world.context(), hook.id, true).await.unwrap();
        } else {
            change(&world, &hook, json!({"active": true})).await;
        }
        world.drain(&hook).await;
        assert_eq!(
            (world.live(&hook).await, world.ended(&hook, "delivered").await),
            (0, count.into()),
            "{path}"
        );
    }
    // of an active webhook, it changes nothing of that
    let hook = world.hook("/active", json!({})).await;
    world.events(&hook, 1).await;
    sqlx::query(waits).execute(&world.pool).await.unwrap();
    subscription::set_active(&world.services, &world.context(), hook.id, true).await.unwrap();
    world.drain(&hook).await;
    assert_eq!(world.live(&hook).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn deactivating_ends_a_turn_and_calls_under_way_still_count(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 1})).await;
    let gate = world.receiver.hold("/hook", Answer::Status(204));
    world.events(&hook, 10).await;
    let switching = async {
        world.receiver.wait_for(1, PATIENCE).await.unwrap();
        subscription::set_active(&world.services, &world.context(), hook.id, false).await.unwrap();
        // the turn notices it when it renews its lease
        while world.value(KEPT, &hook).await != true {
            tokio::task::yield_now().await;
        }
        gate.open();
    };
    let (ran, ()) = tokio::join!(lanes::run(&world.worker, hook.id), switching);
    assert_eq!(ran.unwrap(), Ran::Done);
    assert_eq!((world.receiver.requests(), world.live(&hook).await), (1, 9));
    assert_eq!(world.ended(&hook, "delivered").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_changed_destination_is_used_at_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/old", json!({})).await;
    world.receiver.answer("/old", Answer::Status(500));
    world.events(&hook, 1).await;
    world.drain(&hook).await;
    change(&world, &hook, json!({"destination": world.receiver.url("/new")})).await;
    world.make_due(&hook).await;
    world.drain(&hook).await;
    assert_eq!(world.receiver.receipts_at("/old").len(), 1);
    assert_eq!(world.receiver.receipts_at("/new").len(), 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn deleting_cancels_undelivered_events(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (hook, other) = (world.hook("/hook", json!({})).await, world.hook("/other", json!({})).await);
    world.events(&hook, 10_005).await;
    world.events(&other, 1).await;
    subscription::delete(&world.services, &world.context(), hook.id).await.unwrap();
    assert_eq!((world.live(&hook).await, world.ended(&hook, "cancelled").await), (0, 10_005));
    assert_eq!(world.live(&other).await, 1);
    assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), Ran::NotLeased);
    let again = subscription::delete(&world.services, &world.context(), hook.id).await.unwrap_err();
    assert_eq!(again.kind().status, 410);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_call_under_way_when_its_webhook_is_deleted_is_in_the_history(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    for (path, status, states) in
        [("/ok", 204, ["delivered", "cancelled"]), ("/bad", 500, ["cancelled", "cancelled"])]
    {
        let hook = world.hook(path, json!({"maxInFlight": 1})).await;
        let gate = world.receiver.hold(path, Answer::Status(status));
        world.receiver.forget();
        world.events(&hook, 2).await;
        let deleting = async {
            world.receiver.wait_for(1, PATIENCE).await.unwrap();
            subscription::delete(&world.services, &world.context(), hook.id).await.unwrap();
            gate.open();
        };
        let (ran, ()) = tokio::join!(lanes::run(&world.worker, hook.id), deleting);
        ran.unwrap();
        let history = "SELECT jsonb_agg(jsonb_build_array(state, attempt_count, attempts -> 0 -> 'status') ORDER BY attempt_count DESC)
                       FROM delivery_history WHERE webhook_id = $1";
        let expected = json!([[states[0], 1, status], [states[1], 0, null]]);
        assert_eq!(world.value(history, &hook).await, expected, "{path}");
        assert_eq!(world.live(&hook).await, 0);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn deleting_does_not_wait_for_a_delivery_whose_outcome_is_being_recorded(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.events(&hook, 3).await;
    let mut recording = world.pool.begin().await.unwrap();
    sqlx::query("SELECT FROM delivery WHERE webhook_id = $1 ORDER BY id LIMIT 1 FOR UPDATE")
        .bind(hook.id)
        .execute(&mut *recording)
        .await
        .unwrap();

    subscription::delete(&world.services, &world.context(), hook.id).await.unwrap();

    assert_eq!((world.live(&hook).await, world.ended(&hook, "cancelled").await), (1, 2));
    // whether or not the recording succeeds, nothing is left behind
    recording.rollback().await.unwrap();
    assert_eq!(delivery::cancel_orphans(&world.services.db.main).await.unwrap(), 1);
    assert_eq!((world.live(&hook).await, world.ended(&hook, "cancelled").await), (0, 3));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_webhook_is_deleted_although_its_backlog_cannot_be_cleared_yet(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.events(&hook, 3).await;
    // blocks all writes there until it ends
    let mut other = world.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE delivery_history IN SHARE MODE").execute(&mut *other).await.unwrap();

    let (services, context) = (&world.services, world.context());
    let deleted = timeout(PATIENCE, subscription::delete(services, &context, hook.id)).await;

    assert_eq!(deleted.expect("it does not wait").unwrap().outcome, Outcome::Done);
    assert_eq!((world.live(&hook).await, world.ended(&hook, "cancelled").await), (3, 0));
    assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), Ran::NotLeased);
    other.rollback().await.unwrap();
    assert_eq!(delivery::cancel_orphans(&world.services.db.main).await.unwrap(), 1);
    assert_eq!((world.live(&hook).await, world.ended(&hook, "cancelled").await), (0, 3));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_delivery_written_during_the_deletion_is_cancelled_by_upkeep(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (hook, other) = (world.hook("/hook", json!({})).await, world.hook("/other", json!({})).await);
    subscription::delete(&world.services, &world.context(), hook.id).await.unwrap();
    world.events(&hook, 3).await;
    world.events(&other, 1).await;
    assert_eq!(delivery::cancel_orphans(&world.services.db.main).await.unwrap(), 1);
    assert_eq!((world.live(&hook).await, world.ended(&hook, "cancelled").await), (0, 3));
    assert_eq!(world.live(&other).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_redelivery_is_a_new_delivery_with_the_same_webhook_id(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    let events = world.events(&hook, 3).await;
    world.drain(&hook).await;
    let first: Vec<DeliveryId> = sqlx::query_scalar("SELECT id FROM delivery_history ORDER BY created_at")
        .fetch_all(&world.pool)
        .await
        .unwrap();
    let answer = delivery::redeliver(&world.services, &world.context(), first[0]).await.unwrap();
    assert_eq!(answer.outcome, Outcome::Accepted);
    let body: Value = serde_json::from_str(&answer.body.unwrap()).unwrap();
    assert_eq!(answer.location.unwrap(), format!("/api/webhook-delivery/{}", body["id"].as_str().unwrap()));
    let many = json!([first[1], first[2], first[1]]);
    let answer = delivery::redeliver_many(&world.services, &world.context(), many).await.unwrap();
    let job = world.run_job(&answer).await;
    assert_eq!((&job["total"], &job["resent"], &job["state"]), (&json!(2), &json!(2), &json!("succeeded")));
    world.drain(&hook).await;

    let counts = world.receiver.counts_by("webhook-id");
    assert!(events.iter().all(|event| counts[&event.to_string()] == 2), "{counts:?}");
    let repeated: i64 =
        sqlx::query_scalar("SELECT count(*) FROM delivery_history WHERE redelivery_of = ANY ($1)")
            .bind(&first)
            .fetch_one(&world.pool)
            .await
            .unwrap();
    assert_eq!(repeated, 3);

    subscription::delete(&world.services, &world.context(), hook.id).await.unwrap();
    let problem = delivery::redeliver(&world.services, &world.context(), first[0]).await.unwrap_err();
    assert_eq!(problem.kind().status, 409);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_call_is_signed_with_the_new_and_the_previous_secret(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    let answer = subscription::rotate_secret(&world.services, &world.context(), hook.id).await.unwrap();
    let shown: Value = serde_json::from_str(&answer.body.unwrap()).unwrap();
    let new = Verifier::new(shown["secret"].as_str().unwrap()).unwrap();
    world.events(&hook, 1).await;
    world.drain(&hook).await;
    let receipt = &world.receiver.receipts()[0];
    hook.verifier.verify(receipt).unwrap();
    new.verify(receipt).unwrap();
    assert_eq!(receipt.header("webhook-signature").unwrap().split(' ').count(), 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_arrives_whatever_the_webhook_subscribes_to(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (hook, other) =
        (world.hook("/hook", json!({})).await, world.hook("/other", json!({"event": "*"})).await);
    let answer = delivery::send_test(&world.services, &world.context(), hook.id, None).await.unwrap();
    let body: Value = serde_json::from_str(&answer.body.unwrap()).unwrap();
    world.drain(&hook).await;
    world.drain(&other).await;
    let receipts = world.receiver.receipts();
    assert_eq!(receipts.len(), 1);
    hook.verifier.verify(&receipts[0]).unwrap();
    assert_eq!(receipts[0].header("webhook-id"), body["webhookId"].as_str());
    let event = receipts[0].json().unwrap();
    assert_eq!(
        (&event["type"], &event["id"], &event["test"]),
        (&json!("test"), &json!(hook.id), &json!(true))
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn recovered_deliveries_arrive_once_with_their_webhook_id(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"ordered": true})).await;
    let events = world.events(&hook, 4).await;
    world.receiver.answer("/hook", Answer::Status(500));
    // the last attempt of the first two deliveries fails; the others still wait
    sqlx::query("UPDATE delivery SET attempt_count = 9 WHERE event_id = ANY ($1)")
        .bind(&events[..2])
        .execute(&world.pool)
        .await
        .unwrap();
    world.drain(&hook).await;
    assert_eq!((world.ended(&hook, "exhausted").await, world.live(&hook).await), (2, 2));
    world.receiver.answer("/hook", Answer::Status(204));
    world.receiver.forget();
    let body = json!({"since": "2020-01-01T00:00:00+02:00"});
    let answer = delivery::recover(&world.services, &world.context(), hook.id, body).await.unwrap();
    let job = world.run_job(&answer).await;
    assert_eq!((&job["released"], &job["resent"]), (&json!(1), &json!(2)));
    while world.live(&hook).await > 0 {
        world.drain(&hook).await;
    }
    let counts = world.receiver.counts_by("webhook-id");
    assert_eq!(counts.len(), 4);
    assert!(events.iter().all(|event| counts[&event.to_string()] == 1), "{counts:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn deliveries_of_a_disabled_webhook_are_kept_sent_on_activation_and_cancelled_by_deletion(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (hook, doomed) = (world.hook("/gone", json!({})).await, world.hook("/doomed", json!({})).await);
    for hook in [&hook, &doomed] {
        world.receiver.answer(&hook.path, Answer::Status(410));
        world.events(hook, 1).await;
        world.drain(hook).await;
        // events of the meantime are kept, too
        world.events(hook, 2).await;
        world.make_due(hook).await;
        assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), Ran::NotLeased);
        assert_eq!((world.live(hook).await, world.receiver.receipts_at(&hook.path).len()), (3, 1));
    }
    assert!(lane::due(&world.services.db, None, 10).await.unwrap().lanes.is_empty());
    world.receiver.answer("/gone", Answer::Status(204));
    subscription::set_active(&world.services, &world.context(), hook.id, true).await.unwrap();
    world.drain(&hook).await;
    assert_eq!((world.live(&hook).await, world.ended(&hook, "delivered").await), (0, 3));
    subscription::delete(&world.services, &world.context(), doomed.id).await.unwrap();
    assert_eq!((world.live(&doomed).await, world.ended(&doomed, "cancelled").await), (0, 3));
    assert_eq!(world.receiver.receipts_at("/doomed").len(), 1);
}

/// Whether its lease was renewed after its last change.
const KEPT: &str = "SELECT to_jsonb(l.leased_until > w.changed_at + interval '3 seconds')
                    FROM webhook_lane l JOIN webhook w ON w.id = l.webhook_id WHERE l.webhook_id = $1";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn calls_under_way_when_a_webhook_is_changed_keep_its_lane_until_they_end(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"maxInFlight": 2})).await;
    let gate = world.receiver.hold("/hook", Answer::Status(204));
    world.events(&hook, 10).await;
    let changing = async {
        world.receiver.wait_for(2, PATIENCE).await.unwrap();
        change(&world, &hook, json!({"maxInFlight": 3})).await;
        while world.value(KEPT, &hook).await != true {
            tokio::task::yield_now().await;
        }
        gate.open();
    };
    let (ran, ()) = tokio::join!(lanes::run(&world.worker, hook.id), changing);
    assert_eq!(ran.unwrap(), Ran::More, "the rest goes by what the webhook is now");
    assert_eq!((world.receiver.requests(), world.live(&hook).await), (2, 8));
    world.drain(&hook).await;
    assert!(world.receiver.counts_by("webhook-id").into_values().all(|calls| calls == 1));
    assert_eq!(world.ended(&hook, "delivered").await, 10);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn answers_of_a_former_destination_do_not_count_for_the_new_one(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/old", json!({})).await;
    let gate = world.receiver.hold("/old", Answer::Status(410));
    world.events(&hook, 1).await;
    let changing = async {
        world.receiver.wait_for(1, PATIENCE).await.unwrap();
        change(&world, &hook, json!({"destination": world.receiver.url("/new")})).await;
        gate.open();
    };
    let (ran, ()) = tokio::join!(lanes::run(&world.worker, hook.id), changing);
    ran.unwrap();
    world.drain(&hook).await;
    assert_eq!(world.receiver.receipts_at("/new").len(), 1);
    assert_eq!(world.ended(&hook, "delivered").await, 1);
    let active = "SELECT to_jsonb(active) FROM webhook WHERE id = $1";
    assert_eq!(world.value(active, &hook).await, true);
}
