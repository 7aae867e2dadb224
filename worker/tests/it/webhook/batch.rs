//! Batches: many events by one call, each of them still at least once, in order, and tried again by itself where it must be.

use std::collections::{BTreeMap, BTreeSet};

use longshore_domain::webhook::delivery::send_test;
use longshore_domain::webhook::{lane, subscription};
use longshore_kernel::ids::EventId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::receiver::{Answer, By, Receipt};
use longshore_worker::lanes;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{Hook, PATIENCE, World};

/// A call as it came: its `webhook-id`, and the events.
fn call(receipt: &Receipt) -> (String, Vec<String>) {
    let body: Value = serde_json::from_slice(&receipt.body).unwrap();
    assert_eq!(body["type"], "batch");
    let events: Vec<String> = body["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["webhookId"].as_str().unwrap().to_owned())
        .collect();
    (receipt.headers["webhook-id"].to_str().unwrap().to_owned(), events)
}

fn texts(events: &[EventId]) -> Vec<String> {
    events.iter().map(ToString::to_string).collect()
}

impl World {
    async fn batching(&self, path: &str, fields: Value) -> Hook {
        let hook = self.hook(path, fields).await;
        let shown: bool = sqlx::query_scalar("SELECT batch_events IS NOT NULL FROM webhook WHERE id = $1")
            .bind(hook.id)
            .fetch_one(&self.pool)
            .await
            .unwrap();
        assert!(shown);
        hook
    }

    fn calls(&self, hook: &Hook) -> Vec<(String, Vec<String>)> {
        self.receiver.receipts_at(&hook.path).iter().map(call).collect()
    }

    async fn begun(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM webhook_batch").fetch_one(&self.pool).await.unwrap()
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_backlog_is_sent_by_few_calls_each_event_once_in_order(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.batching("/hook", json!({"batch": {"maxEvents": 100}, "maxInFlight": 1})).await;
    let events = texts(&world.events(&hook, 250).await);
    world.drain(&hook).await;
    let calls = world.calls(&hook);
    assert_eq!(calls.iter().map(|(_, events)| events.len()).collect::<Vec<_>>(), [100, 100, 50]);
    assert_eq!(calls.iter().flat_map(|(_, events)| events.clone()).collect::<Vec<_>>(), events);
    let ids: BTreeSet<_> = calls.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(ids.len(), 3, "each has its own id");
    for receipt in world.receiver.receipts_at("/hook") {
        hook.verifier.verify(&receipt).unwrap();
    }
    assert_eq!((world.live(&hook).await, world.begun().await), (0, 0));
    let of_each: Value = world
        .value(
            "SELECT jsonb_object_agg(batch_id, n) FROM (
                 SELECT batch_id, count(*) AS n FROM delivery_history WHERE webhook_id = $1 AND state = 'delivered' AND attempt_count = 1
                 GROUP BY batch_id) AS batches",
            &hook,
        )
        .await;
    let expected: BTreeMap<_, _> = calls.iter().map(|(id, events)| (id.clone(), events.len())).collect();
    assert_eq!(of_each, json!(expected));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_batch_that_failed_is_tried_again_as_it_was(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.batching("/hook", json!({"batch": {"maxEvents": 10}})).await;
    let sorry = Answer::Body(503, "sorry".into());
    world.receiver.answer("/hook", Answer::Sequence(vec![sorry, Answer::Status(204)]));
    let events = texts(&world.events(&hook, 5).await);
    world.drain(&hook).await;
    let kept = "SELECT jsonb_agg(jsonb_build_array(attempt_count, attempts -> 0 -> 'status', attempts -> 0 -> 'response')
                                 ORDER BY created_at, id) FROM delivery WHERE webhook_id = $1";
    assert_eq!(
        world.value(kept, &hook).await,
        json!([[1, 503, "sorry"], [1, 503, null], [1, 503, null], [1, 503, null], [1, 503, null]]),
        "what was answered is kept once"
    );
    let later = texts(&world.events(&hook, 3).await);
    world.drain(&hook).await;
    world.make_due(&hook).await;
    world.drain(&hook).await;
    let calls = world.calls(&hook);
    assert_eq!(
        calls.iter().map(|(_, events)| events.clone()).collect::<Vec<_>>(),
        [events.clone(), later, events]
    );
    assert_eq!(calls[0].0, calls[2].0, "the same batch");
    let receipts = world.receiver.receipts_at("/hook");
    assert_eq!(receipts[0].body, receipts[2].body);
    assert_eq!((world.live(&hook).await, world.begun().await), (0, 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn batches_whose_holder_died_are_sent_by_the_next_one_as_they_were(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.batching("/hook", json!({"batch": {"maxEvents": 4}})).await;
    let events = texts(&world.events(&hook, 10).await);
    let lease = world.lease(&hook).await;
    let mut begun = BTreeMap::new();
    let mut from = lane::From::default();
    for events in events.chunks(4) {
        let id = lane::fetch(&world.services.db, &lease, from.clone()).await.unwrap().batch.unwrap().id;
        from.batches.push(id);
        begun.insert(id.to_string(), events.to_vec());
    }
    // nothing more is known of that holder
    lane::release(&world.services.db, &[(hook.id, lease.token)]).await.unwrap();
    let later = texts(&world.events(&hook, 3).await);
    world.drain(&hook).await;
    let mut calls: BTreeMap<_, _> = world.calls(&hook).into_iter().collect();
    for (id, events) in begun {
        assert_eq!(calls.remove(&id), Some(events));
    }
    assert_eq!(calls.into_values().collect::<Vec<_>>(), [later]);
    assert_eq!((world.live(&hook).await, world.begun().await), (0, 0));
    // the lease that is gone forms nothing
    world.events(&hook, 1).await;
    assert!(lane::fetch(&world.services.db, &lease, lane::From::default()).await.unwrap().due.is_empty());
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn one_poisoned_event_of_many_is_soon_alone(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.batching("/hook", json!({"batch": {"maxEvents": 500}})).await;
    let events = texts(&world.events(&hook, 500).await);
    let poison = events[123].clone();
    let rule = {
        let poison = poison.clone();
        By::new(move |receipt| {
            let poisoned = call(receipt).1.contains(&poison);
            Answer::Status(if poisoned { 500 } else { 200 })
        })
    };
    world.receiver.answer("/hook", Answer::By(rule));
    world.drain(&hook).await;
    assert_eq!(world.calls(&hook).len(), 1, "an answer that comes once may be about the moment");
    world.make_due(&hook).await;
    world.drain(&hook).await;
    assert_eq!((world.ended(&hook, "delivered").await, world.live(&hook).await), (499, 1));
    let calls = world.calls(&hook);
    let sizes: Vec<_> =
        calls.iter().map(|(id, events)| (&id[14..], events.len(), events.contains(&poison))).collect();
    assert!(calls.len() <= 2 + 2 * 9, "{sizes:?}");
    assert_eq!(calls.iter().filter(|(_, events)| *events == [poison.clone()]).count(), 1);
    let left = "SELECT jsonb_build_array(attempt_count, next_attempt_at > now()) FROM delivery WHERE webhook_id = $1";
    assert_eq!(world.value(left, &hook).await, json!([2, true]), "the halves have used up no attempt");
    let lane =
        "SELECT jsonb_build_array(probe_at IS NULL, failures < 5) FROM webhook_lane WHERE webhook_id = $1";
    assert_eq!(world.value(lane, &hook).await, json!([true, true]), "the destination is well");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_batch_is_divided_for_its_content_only(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    for (status, divides_at) in [(413, 1), (400, 2), (422, 2), (500, 2)] {
        let path = format!("/{status}");
        let hook = world.batching(&path, json!({"batch": {"maxEvents": 4}})).await;
        let rule =
            By::new(move |receipt| Answer::Status(if call(receipt).1.len() > 1 { status } else { 200 }));
        world.receiver.answer(&path, Answer::By(rule));
        world.events(&hook, 4).await;
        for _ in 0..divides_at {
            assert_eq!(world.ended(&hook, "delivered").await, 0, "{status}");
            world.make_due(&hook).await;
            world.drain(&hook).await;
        }
        assert_eq!(world.ended(&hook, "delivered").await, 4, "{status}");
    }
    for status in [401, 404, 408, 429, 502, 503] {
        let path = format!("/{status}");
        let hook = world.batching(&path, json!({"batch": {"maxEvents": 4}})).await;
        world.receiver.answer(&path, Answer::Status(status));
        world.events(&hook, 4).await;
        for tried in 1..=3 {
            world.drain(&hook).await;
            world.make_due(&hook).await;
            let calls = world.calls(&hook);
            assert_eq!(calls.len(), tried, "{status}");
            assert!(calls.iter().all(|call| *call == calls[0]), "{status}");
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_a_receiver_did_not_take_is_tried_again_and_the_rest_is_delivered(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    for ordered in [false, true] {
        let path = format!("/{ordered}");
        let hook = world.batching(&path, json!({"batch": {"maxEvents": 10}, "ordered": ordered})).await;
        let events = texts(&world.events(&hook, 4).await);
        let failed = Answer::Json(
            200,
            json!({"failed": [events[1], "no id", "01921111-2222-7333-8444-555566667777"]}),
        );
        world.receiver.answer(&path, Answer::Sequence(vec![failed, Answer::Status(200)]));
        world.drain(&hook).await;
        let left = if ordered { events[1..].to_vec() } else { vec![events[1].clone()] };
        assert_eq!(world.ended(&hook, "delivered").await, if ordered { 1 } else { 3 });
        world.make_due(&hook).await;
        world.drain(&hook).await;
        assert_eq!(world.calls(&hook)[1].1, left);
        assert_eq!((world.live(&hook).await, world.begun().await), (0, 0));
    }
    // an answer that was cut off: which ones is not known
    let hook = world.batching("/long", json!({"batch": {"maxEvents": 10}})).await;
    let long =
        format!(r#"{{"failed": [{}]}}"#, vec![r#""01921111-2222-7333-8444-555566667777""#; 2_000].join(","));
    world
        .receiver
        .answer("/long", Answer::Sequence(vec![Answer::Body(200, long.into()), Answer::Status(200)]));
    world.events(&hook, 3).await;
    world.drain(&hook).await;
    world.make_due(&hook).await;
    world.drain(&hook).await;
    assert_eq!(world.calls(&hook).iter().map(|(_, events)| events.len()).collect::<Vec<_>>(), [3, 1, 1, 1]);
    // and what is no such answer says nothing
    let hook = world.batching("/page", json!({"batch": {"maxEvents": 10}})).await;
    world.receiver.answer("/page", Answer::Body(200, "<p>\"failed\"</p>".into()));
    world.events(&hook, 3).await;
    world.drain(&hook).await;
    assert_eq!(world.ended(&hook, "delivered").await, 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_probe_is_one_event(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.batching("/hook", json!({"batch": {"maxEvents": 10}, "maxInFlight": 1})).await;
    world.receiver.answer("/hook", Answer::Status(503));
    let events = texts(&world.events(&hook, 100).await);
    world.drain(&hook).await;
    assert_eq!(world.calls(&hook).len(), 5, "the breaker is open");
    for _ in 0..4 {
        world.make_probe_due(&hook).await;
        world.drain(&hook).await;
    }
    // of what was tried, too
    world.make_due(&hook).await;
    world.drain(&hook).await;
    let calls = world.calls(&hook);
    assert_eq!(calls[5..].iter().map(|(_, events)| events.len()).collect::<Vec<_>>(), [1; 5]);
    let mut of: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (id, events) in &calls {
        of.entry(id).or_default().insert(events.clone());
    }
    assert!(of.values().all(|events| events.len() == 1), "a batch has the same events whenever it is tried");
    world.receiver.answer("/hook", Answer::Status(204));
    while world.live(&hook).await > 0 {
        world.make_due(&hook).await;
        world.drain(&hook).await;
    }
    let came: BTreeSet<_> = world.calls(&hook).into_iter().flat_map(|(_, events)| events).collect();
    assert_eq!(came, events.into_iter().collect());
    assert_eq!(world.begun().await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_first_event_waits_for_others_but_no_longer_than_it_may(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.batching("/hook", json!({"batch": {"maxEvents": 3, "maxWaitMs": 60_000}})).await;
    for sku in ["A", "B"] {
        world.product(sku).await;
        world.drain(&hook).await;
    }
    assert_eq!(world.receiver.requests(), 0);
    // the third makes it full
    world.product("C").await;
    world.drain(&hook).await;
    assert_eq!(world.calls(&hook).iter().map(|(_, events)| events.len()).collect::<Vec<_>>(), [3]);
    // and a test is due at once, with what waits
    world.product("D").await;
    send_test(&world.services, &world.context(), hook.id, None).await.unwrap();
    world.drain(&hook).await;
    assert_eq!(world.calls(&hook)[1].1.len(), 2);
    // whose time has come is found as soon as a retry
    let before = lane::retries(&world.services.db, None, 10).await.unwrap().until;
    let waits = world.batching("/waits", json!({"batch": {"maxEvents": 3, "maxWaitMs": 50}})).await;
    world.product("E").await;
    let found = async {
        loop {
            let found = lane::retries(&world.services.db, Some(before), 10).await.unwrap();
            if found.lanes.contains(&waits.id) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await.unwrap();
    world.drain(&waits).await;
    assert_eq!(world.calls(&waits)[0].1.len(), 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_while_the_queue_is_paused_is_a_batch_of_one(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.batching("/hook", json!({"batch": {"maxEvents": 10}})).await;
    world.events(&hook, 3).await;
    let sent = send_test(&world.services, &world.context(), hook.id, None).await.unwrap();
    let sent: Value = serde_json::from_str(&sent.body.unwrap()).unwrap();
    lanes::run_test(&world.worker, hook.id, sent["id"].as_str().unwrap().parse().unwrap()).await.unwrap();
    let calls = world.calls(&hook);
    assert_eq!(
        calls.iter().map(|(_, events)| events.clone()).collect::<Vec<_>>(),
        [[sent["webhookId"].as_str().unwrap()]]
    );
    assert_eq!((world.live(&hook).await, world.begun().await), (3, 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_batch_has_at_most_a_megabyte(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.batching("/hook", json!({"batch": {"maxEvents": 500}})).await;
    let events = world.events(&hook, 100).await;
    sqlx::query(
        "UPDATE event SET data = data || jsonb_build_object('note', repeat('x', 19000)) WHERE id = ANY ($1)",
    )
    .bind(&events)
    .execute(&world.pool)
    .await
    .unwrap();
    world.drain(&hook).await;
    let receipts = world.receiver.receipts_at("/hook");
    assert!(receipts.len() > 1 && receipts.len() <= 3, "{}", receipts.len());
    assert!(receipts.iter().all(|receipt| receipt.body.len() <= 1_000_000));
    assert_eq!(receipts.iter().map(|receipt| call(receipt).1.len()).sum::<usize>(), 100);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_ordered_lane_sends_a_failed_batch_before_all_that_came_later(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    for status in [503, 413] {
        let path = format!("/{status}");
        let hook = world.batching(&path, json!({"batch": {"maxEvents": 4}, "ordered": true})).await;
        // the first call, and each of its halves, fails once
        let rule =
            By::new(move |receipt| Answer::Status(if call(receipt).1.len() > 2 { status } else { 204 }));
        let answers = if status == 413 {
            Answer::By(rule)
        } else {
            Answer::Sequence(vec![Answer::Status(503), Answer::Status(204)])
        };
        world.receiver.answer(&path, answers);
        let events = texts(&world.events(&hook, 12).await);
        for _ in 0..4 {
            world.drain(&hook).await;
            // as a hint of a later change would
            lanes::run(&world.worker, hook.id).await.unwrap();
        }
        if status == 503 {
            assert_eq!(world.calls(&hook).len(), 1, "all else waits for it");
            world.make_due(&hook).await;
        }
        while world.live(&hook).await > 0 {
            world.drain(&hook).await;
        }
        let delivered = world.calls(&hook).into_iter().map(|(_, events)| events);
        let most = if status == 413 { 2 } else { 4 };
        let delivered = delivered.skip(1).filter(|events| events.len() <= most).flatten().collect::<Vec<_>>();
        assert_eq!(delivered, events, "{status}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_event_that_has_expired_is_left_out_of_its_batch(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.batching("/hook", json!({"batch": {"maxEvents": 10}})).await;
    let gate = world.receiver.hold("/hook", Answer::Status(204));
    let events = world.events(&hook, 5).await;
    sqlx::query("DELETE FROM event WHERE id = $1").bind(events[0]).execute(&world.pool).await.unwrap();
    let running = {
        let (worker, id) = (world.worker.clone(), hook.id);
        tokio::spawn(async move { lanes::run(&worker, id).await })
    };
    world.receiver.wait_for(1, PATIENCE).await.unwrap();
    while world.ended(&hook, "cancelled").await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.begun().await, 1, "the others are still on their way");
    gate.open();
    running.await.unwrap().unwrap();
    world.drain(&hook).await;
    assert_eq!(
        world.calls(&hook).iter().map(|(_, events)| events.clone()).collect::<Vec<_>>(),
        [texts(&events[1..])]
    );
    assert_eq!((world.live(&hook).await, world.begun().await), (0, 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_webhook_that_gets_batches_no_more_has_none_begun(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.batching("/hook", json!({"batch": {"maxEvents": 10}})).await;
    let events = texts(&world.events(&hook, 5).await);
    let lease = world.lease(&hook).await;
    assert_eq!(lane::fetch(&world.services.db, &lease, lane::From::default()).await.unwrap().due.len(), 5);
    lane::release(&world.services.db, &[(hook.id, lease.token)]).await.unwrap();
    let fields = json!({"batch": null});
    subscription::update(&world.services, &world.context(), hook.id, fields, |_| Ok(())).await.unwrap();
    assert_eq!(world.begun().await, 0);
    world.drain(&hook).await;
    let came: BTreeSet<_> = world.receiver.counts_by("webhook-id").into_keys().collect();
    assert_eq!(came, events.into_iter().collect());
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_probe_that_was_not_recorded_leaves_no_batch_with_other_events(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.batching("/hook", json!({"batch": {"maxEvents": 4}, "ordered": true})).await;
    world.receiver.answer("/hook", Answer::Status(503));
    world.events(&hook, 4).await;
    world.drain(&hook).await;
    world.make_due(&hook).await;
    for _ in 0..2 {
        let lease = world.lease(&hook).await;
        let alone = lane::From { single: true, ..lane::From::default() };
        let found = lane::fetch(&world.services.db, &lease, alone).await.unwrap();
        assert_eq!(found.due.len(), 1);
        let first = world.calls(&hook)[0].0.clone();
        assert_ne!(found.batch.unwrap().id.to_string(), first);
        lane::release(&world.services.db, &[(hook.id, lease.token)]).await.unwrap();
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_selected_is_sent_alone_in_a_batch_and_by_a_test(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let alone = world.hook("/alone", json!({"select": ["weight"]})).await;
    let batch = json!({"select": ["name"], "batch": {"maxEvents": 10}});
    let batching = world.batching("/batch", batch).await;
    let bodies = |hook: &Hook| -> Vec<Value> {
        let receipts = world.receiver.receipts_at(&hook.path);
        let read = |receipt: &Receipt| -> Value { serde_json::from_slice(&receipt.body).unwrap() };
        let events = receipts.iter().map(read).flat_map(|body| match &body["events"] {
            Value::Array(events) => events.clone(),
            _ => vec![body],
        });
        events.collect()
    };
    for (hook, fields) in [(&alone, json!({})), (&batching, json!({"name": "no 1"}))] {
        world.events(hook, 2).await;
        world.drain(hook).await;
        let sent = bodies(hook);
        assert_eq!(sent.len(), 2);
        let names: Vec<_> = sent[0]["data"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!((names, &sent[0]["data"]["fields"]), (vec!["changedFields", "fields", "id"], &fields));
        for receipt in world.receiver.receipts_at(&hook.path) {
            hook.verifier.verify(&receipt).unwrap();
        }
        send_test(&world.services, &world.context(), hook.id, Some(json!({"event": "product_change"})))
            .await
            .unwrap();
        world.drain(hook).await;
        let test = bodies(hook).pop().unwrap();
        assert_eq!((&test["test"], test["data"].get("organisation")), (&json!(true), None));
    }
    // what is tried again is sent as the webhook is by then
    world.receiver.answer("/alone", Answer::Status(500));
    world.events(&alone, 1).await;
    world.drain(&alone).await;
    let all = json!({"select": null});
    subscription::update(&world.services, &world.context(), alone.id, all, |_| Ok(())).await.unwrap();
    world.receiver.answer("/alone", Answer::Status(200));
    world.make_due(&alone).await;
    world.drain(&alone).await;
    let sent = bodies(&alone);
    assert_eq!(sent[sent.len() - 2]["data"]["fields"], json!({}));
    assert_eq!(sent[sent.len() - 1]["data"]["fields"], json!({"name": "no 1"}));
}
