//! Tests of webhooks: what arrives says that it is one, however it is sent.

use longshore_domain::standing::queue;
use longshore_domain::webhook::{delivery, subscription};
use longshore_kernel::queue::Queue;
use longshore_testkit::receiver::{Answer, Receipt};
use longshore_worker::context::WorkerContext;
use longshore_worker::dispatcher::{self, Controlled};
use longshore_worker::queue::QueueControl;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{Hook, PATIENCE, World};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

impl World {
    /// Tests a webhook with the example of a type; returns the answer.
    async fn test(&self, hook: &Hook, event: &str) -> Value {
        let body = Some(json!({"event": event}));
        let answer = delivery::send_test(&self.services, &self.context(), hook.id, body).await.unwrap();
        serde_json::from_str(&answer.body.unwrap()).unwrap()
    }
}

/// What the bodies say, those of tests first.
fn marks(receipts: &[Receipt]) -> Vec<Option<Value>> {
    let mut marks: Vec<_> =
        receipts.iter().map(|receipt| receipt.json().unwrap().get("test").cloned()).collect();
    marks.sort_by_key(Option::is_none);
    marks
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_example_is_marked_at_each_attempt_and_redelivery_and_a_change_is_not(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    for (path, is_ordered) in [("/hook", false), ("/ordered", true)] {
        let hook = world.hook(path, json!({"event": "sync_finished", "ordered": is_ordered})).await;
        world.receiver.answer(path, Answer::Status(500));
        let sent = world.test(&hook, "product_change").await;
        world.drain(&hook).await;
        world.receiver.answer(path, Answer::Status(204));
        world.make_due(&hook).await;
        world.drain(&hook).await;
        let id = sent["id"].as_str().unwrap().parse().unwrap();
        delivery::redeliver(&world.services, &world.context(), id).await.unwrap();
        world.drain(&hook).await;
        let receipts = world.receiver.take();
        assert_eq!(receipts.len(), 3, "the attempt that failed, the next one, and the redelivery");
        for receipt in &receipts {
            hook.verifier.verify(receipt).unwrap();
            assert_eq!(receipt.header("webhook-id"), sent["webhookId"].as_str());
            assert_eq!(receipt.body, receipts[0].body);
        }
        let body = receipts[0].json().unwrap();
        assert_eq!((&body["type"], &body["test"]), (&json!("product_change"), &json!(true)));
        assert_eq!((&body["id"], body["id"] == json!(hook.id)), (&body["data"]["id"], false));

        world.events(&hook, 1).await;
        world.drain(&hook).await;
        assert_eq!(marks(&world.receiver.take()), [None]);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_example_waits_for_an_inactive_webhook(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"active": false})).await;
    world.test(&hook, "expedition_status_change").await;
    world.drain(&hook).await;
    assert_eq!((world.receiver.requests(), world.live(&hook).await), (0, 1));
    subscription::set_active(&world.services, &world.context(), hook.id, true).await.unwrap();
    world.drain(&hook).await;
    assert_eq!(marks(&world.receiver.take()), [Some(json!(true))]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_replay_sends_an_example_as_an_example(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.test(&hook, "product_change").await;
    world.events(&hook, 1).await;
    world.drain(&hook).await;
    assert_eq!(marks(&world.receiver.take()), [Some(json!(true)), None]);
    let body = json!({"webhooks": [hook.id], "since": "2020-01-01T00:00:00Z", "delivered": true});
    let answer = delivery::replay::replay(&world.services, &world.context(), body).await.unwrap();
    assert_eq!(world.run_job(&answer).await["resent"], 2);
    world.drain(&hook).await;
    assert_eq!(marks(&world.receiver.take()), [Some(json!(true)), None]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn while_the_queue_is_paused_a_test_is_sent_and_nothing_else(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    queue::pause(&world.services, &world.context(), "lane", None).await.unwrap();
    let controlled = vec![Controlled::new(Queue::Lane, QueueControl::new(1))];
    let worker = WorkerContext::new(world.services.clone()).unwrap();
    let dispatcher = tokio::spawn(dispatcher::run(worker.clone(), controlled));
    for (requests, path, is_ordered) in [(1, "/hook", false), (2, "/ordered", true)] {
        let hook = world.hook(path, json!({"event": "product_change", "ordered": is_ordered})).await;
        world.events(&hook, 30).await;
        let sent = world.test(&hook, "product_change").await;
        world.receiver.wait_for(requests, PATIENCE).await.unwrap();
        let receipts = world.receiver.take();
        hook.verifier.verify(&receipts[0]).unwrap();
        assert_eq!(receipts[0].header("webhook-id"), sent["webhookId"].as_str());
        assert_eq!(marks(&receipts), [Some(json!(true))]);
    }
    worker.stop.cancel();
    dispatcher.await.unwrap();
    assert_eq!(world.receiver.take().len(), 0);
}
