//! What a notice is good for: one that is lost, doubled, late, elsewhere, or of something that must not be sent.

use std::time::Duration;

use longshore_domain::catalog::product::activation;
use longshore_kernel::json::compact;
use longshore_kernel::queue::{Hint, NOTICE_BYTES, NOTICES_WAITING, Queue};
use longshore_worker::lanes;
use redis::AsyncTypedCommands as _;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{
    Holder, announce, changes, hand_over, is_leased, notices, registration, token, until, warm_lane,
};
use crate::webhook::support::{Hook, PATIENCE, World};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn changes_of_a_warm_lane_are_sent_under_one_lease_as_they_are_stored(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    let product = world.product("A").await;
    let holder = Holder::start(&world);
    // the event of the creation, and what `warm` adds
    lanes::run(&holder.context, hook.id).await.unwrap();
    holder.warm(&world, &hook).await;
    let before = world.receiver.requests();
    let lease = token(&world, &hook).await;
    for n in 0..20 {
        activation::set_active(&world.services, &world.context(), product, n % 2 == 1).await.unwrap();
        world.receiver.wait_for(before + n + 1, PATIENCE).await.unwrap();
    }
    until("all is recorded", async || world.live(&hook).await == 0).await;
    assert_eq!(token(&world, &hook).await, lease, "nothing was leased again");
    let counts = world.receiver.counts_by("webhook-id");
    assert!(counts.values().all(|sent| *sent == 1), "{counts:?}");
    for receipt in world.receiver.receipts() {
        hook.verifier.verify(&receipt).unwrap();
        let id: uuid::Uuid = receipt.header("webhook-id").unwrap().parse().unwrap();
        let data: String = sqlx::query_scalar("SELECT data::text FROM event WHERE id = $1")
            .bind(id)
            .fetch_one(&world.pool)
            .await
            .unwrap();
        let data = compact(&data);
        let body = std::str::from_utf8(&receipt.body).unwrap();
        assert!(body.ends_with(&format!(r#""data":{data}}}"#)), "{body} bears not {data}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_webhook_of_an_organisation_is_told_the_eshops_however_its_events_are_read(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let of_all = json!({"organisation": world.tenant.organisation, "eshop": null});
    let all = world.hook("/all", of_all.clone()).await;
    let mut in_batches = of_all.clone();
    in_batches["batch"] = json!({"maxEvents": 10});
    let batches = world.hook("/batches", in_batches).await;
    let ordered = world
        .hook("/ordered", json!({"organisation": of_all["organisation"], "eshop": null, "ordered": true}))
        .await;
    let one = world.hook("/one", json!({})).await;
    let product = world.product("A").await;
    let holder = Holder::start(&world);
    for hook in [&all, &batches, &ordered, &one] {
        lanes::run(&holder.context, hook.id).await.unwrap();
    }
    world.receiver.wait_for(4, PATIENCE).await.unwrap();
    until("the lane is warm", async || registration(&world, &all).await.is_some()).await;
    for n in 0..3 {
        activation::set_active(&world.services, &world.context(), product, n % 2 == 1).await.unwrap();
        for hook in [&batches, &ordered, &one] {
            world.drain(hook).await;
        }
        world.receiver.wait_for(4 + 4 * (n + 1), PATIENCE).await.unwrap();
    }
    let eshops = json!([world.tenant.eshop]);
    for (hook, expected) in
        [(&all, Some(&eshops)), (&batches, Some(&eshops)), (&ordered, Some(&eshops)), (&one, None)]
    {
        let receipts = world.receiver.receipts_at(&hook.path);
        assert_eq!(receipts.len(), 4, "{}", hook.path);
        for receipt in receipts {
            hook.verifier.verify(&receipt).unwrap();
            let body: Value = serde_json::from_slice(&receipt.body).unwrap();
            let event = body["events"].get(0).unwrap_or(&body);
            assert_eq!((event.get("eshops"), event.get("eshop")), (expected, None), "{}: {event}", hook.path);
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn contents_are_used_without_a_look_at_the_row(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, hook, _holder) = warm_lane(&options, json!({})).await;
    let (token, name) = registration(&world, &hook).await.unwrap();
    // no look can find what is not committed
    let mut open = world.pool.begin().await.unwrap();
    world.events_in(&mut open, &hook, 1).await;
    let (_, notice) = notices(&mut open, &hook).await.remove(0);
    announce(&world, &name, hook.id, token, &notice).await;
    world.receiver.wait_for(2, PATIENCE).await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_lost_notice_is_found_by_the_look_and_holds_up_no_other(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, hook, _holder) = warm_lane(&options, json!({})).await;
    let lease = token(&world, &hook).await;
    // the process of the change died between its commit and its entry
    world.events(&hook, 1).await;
    hand_over(&world, changes(&world, &hook, 1).await);
    world.receiver.wait_for(3, Duration::from_secs(5)).await.unwrap();
    assert_eq!(token(&world, &hook).await, lease);
    until("each is recorded", async || world.ended(&hook, "delivered").await == 3).await;
    assert_eq!(world.receiver.counts_by("webhook-id").len(), 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_notice_that_comes_again_is_sent_once(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, hook, _holder) = warm_lane(&options, json!({})).await;
    let (token, name) = registration(&world, &hook).await.unwrap();
    let hints = changes(&world, &hook, 10).await;
    for _ in 0..3 {
        hand_over(&world, hints.clone());
    }
    until("each is recorded", async || world.ended(&hook, "delivered").await == 11).await;
    // and once more, when it is settled
    for hint in &hints {
        announce(&world, &name, hook.id, token, hint.notice().unwrap()).await;
    }
    let last = changes(&world, &hook, 1).await;
    announce(&world, &name, hook.id, token, last[0].notice().unwrap()).await;
    until("the last is recorded", async || world.ended(&hook, "delivered").await == 12).await;
    assert_eq!(world.receiver.requests(), 12);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_late_notice_of_what_an_earlier_lease_has_sent_is_not_sent_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, hook, first) = warm_lane(&options, json!({})).await;
    // the process of the change stalls between its commit and its entry, and the look finds the row
    let late = changes(&world, &hook, 1).await;
    until("it is recorded", async || world.ended(&hook, "delivered").await == 2).await;
    first.stop().await;
    let second = Holder::start(&world);
    second.warm(&world, &hook).await;
    hand_over(&world, late);
    hand_over(&world, changes(&world, &hook, 1).await);
    until("the last is recorded", async || world.ended(&hook, "delivered").await == 4).await;
    let counts = world.receiver.counts_by("webhook-id");
    assert!(counts.len() == 4 && counts.values().all(|sent| *sent == 1), "{counts:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_notice_after_its_lease_makes_the_lane_leased_anew(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, hook, _holder) = warm_lane(&options, json!({})).await;
    let (former, name) = registration(&world, &hook).await.unwrap();
    sqlx::query(
        "UPDATE webhook_lane SET token = token + 1, leased_until = '-infinity' WHERE webhook_id = $1",
    )
    .bind(hook.id)
    .execute(&world.pool)
    .await
    .unwrap();
    until("its holder knows it", async || registration(&world, &hook).await.is_none()).await;
    let mut connection = world.services.queues.connection();
    connection.del(world.services.queues.keys(Queue::Lane).stream()).await.unwrap();
    let hints = changes(&world, &hook, 1).await;
    announce(&world, &name, hook.id, former, hints[0].notice().unwrap()).await;
    // it goes on to the queue
    until("the lane is queued", async || world.services.queues.stats(Queue::Lane).await.unwrap().depth == 1)
        .await;
    assert_eq!(world.receiver.requests(), 1, "nothing is sent without a lease");
    world.drain(&hook).await;
    assert_eq!(world.receiver.requests(), 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_notice_that_reaches_another_worker_is_not_sent_by_it(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (hook, other) = (world.hook("/hook", json!({})).await, world.hook("/other", json!({})).await);
    let (holder, stranger) = (Holder::start(&world), Holder::start(&world));
    holder.warm(&world, &hook).await;
    stranger.warm(&world, &other).await;
    let (token, _) = registration(&world, &hook).await.unwrap();
    let (theirs, name) = registration(&world, &other).await.unwrap();
    let mut open = world.pool.begin().await.unwrap();
    world.events_in(&mut open, &hook, 1).await;
    let (_, notice) = notices(&mut open, &hook).await.remove(0);
    announce(&world, &name, hook.id, token, &notice).await;
    // an entry behind it, which shows that it was read
    let (_, of_other) = {
        world.events_in(&mut open, &other, 1).await;
        notices(&mut open, &other).await.remove(0)
    };
    announce(&world, &name, other.id, theirs, &of_other).await;
    world.receiver.wait_for(3, PATIENCE).await.unwrap();
    assert_eq!(world.receiver.receipts_at("/hook").len(), 1);
    open.commit().await.unwrap();
    // its holder looks
    world.receiver.wait_until(PATIENCE, |seen| seen.requests >= 4).await.unwrap();
    assert_eq!(world.receiver.receipts_at("/hook").len(), 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_old_notice_or_one_of_another_lease_only_makes_the_holder_look(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, hook, _holder) = warm_lane(&options, json!({})).await;
    let (token, name) = registration(&world, &hook).await.unwrap();
    let mut open = world.pool.begin().await.unwrap();
    world.events_in(&mut open, &hook, 3).await;
    let found = notices(&mut open, &hook).await;
    announce(&world, &name, hook.id, token - 1, &found[0].1).await;
    let mut old: Value = serde_json::from_str(&found[1].1).unwrap();
    old["at"] = json!("2020-01-01T00:00:00+00:00");
    announce(&world, &name, hook.id, token, &old.to_string()).await;
    announce(&world, &name, hook.id, token, "neither").await;
    announce(&world, &name, hook.id, token, &found[2].1).await;
    world.receiver.wait_for(2, PATIENCE).await.unwrap();
    let sent = world.receiver.receipts();
    let id: Value = serde_json::from_str(&found[2].1).unwrap();
    assert_eq!(sent[1].header("webhook-id"), id["event"].as_str());
    assert_eq!(sent.len(), 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_ordered_lane_does_not_stay_warm_and_keeps_its_order(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"ordered": true})).await;
    let product = world.product("A").await;
    let holder = Holder::start(&world);
    for n in 0..10 {
        activation::set_active(&world.services, &world.context(), product, n % 2 == 1).await.unwrap();
        if n % 3 == 0 {
            lanes::run(&holder.context, hook.id).await.unwrap();
            assert!(!is_leased(&world, &hook).await);
        }
    }
    lanes::run(&holder.context, hook.id).await.unwrap();
    let versions: Vec<_> = world
        .receiver
        .receipts()
        .iter()
        .map(|r| r.json().unwrap()["data"]["version"].as_i64().unwrap())
        .collect();
    assert_eq!(versions, (1..).take(versions.len()).collect::<Vec<_>>());
    assert_eq!(world.live(&hook).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_waits_for_a_holder_is_bounded_and_the_rest_is_an_id_on_the_queue(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    let queues = &world.services.queues;
    let keys = queues.keys(Queue::Lane);
    let mut connection = queues.connection();
    connection.set(keys.holder(&hook.id.to_string()), "7 nobody").await.unwrap();
    for n in 0..NOTICES_WAITING + 50 {
        hand_over(&world, vec![Hint::new(hook.id, Some(format!("{n}")))]);
        if n % 100 == 0 && n < NOTICES_WAITING {
            until("it is put", async || connection.clone().xlen(keys.of_holder("nobody")).await.unwrap() > n)
                .await;
        }
    }
    until("the rest is on the queue", async || queues.stats(Queue::Lane).await.unwrap().depth == 1).await;
    assert_eq!(connection.xlen(keys.of_holder("nobody")).await.unwrap(), NOTICES_WAITING);
    assert!(
        connection.pttl(keys.of_holder("nobody")).await.unwrap().raw() > 0,
        "the stream goes with its holder"
    );
    let large = Hint::new(hook.id, Some("x".repeat(NOTICE_BYTES + 1)));
    assert_eq!(large.notice(), None);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn redis_holds_no_secret(_: PgPoolOptions, options: PgConnectOptions) {
    let authentication = json!({"type": "bearer", "token": "a-very-secret-token"});
    let (world, hook, holder) = warm_lane(&options, json!({"authentication": authentication})).await;
    let (_, name) = registration(&world, &hook).await.unwrap();
    // it has no reader any more
    holder.stop().await;
    let keys = world.services.queues.keys(Queue::Lane);
    let mut connection = world.services.queues.connection();
    connection.set(keys.holder(&hook.id.to_string()), format!("1 {name}")).await.unwrap();
    let product = world.product("A").await;
    activation::set_active(&world.services, &world.context(), product, false).await.unwrap();
    until("both wait", async || connection.clone().xlen(keys.of_holder(&name)).await.unwrap() == 2).await;
    let stored: redis::Value = redis::cmd("XRANGE")
        .arg(keys.of_holder(&name))
        .arg("-")
        .arg("+")
        .query_async(&mut connection)
        .await
        .unwrap();
    let text = format!("{stored:?}");
    assert!(!text.contains("product"), "what is sent is sealed");
    let secret = hook.secret.strip_prefix("whsec_").unwrap();
    assert!(!text.contains(secret) && !text.contains("a-very-secret-token") && !text.contains("127.0.0.1"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn no_registration_outlives_its_lease(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, hook, holder) = warm_lane(&options, json!({})).await;
    let key = world.services.queues.keys(Queue::Lane).holder(&hook.id.to_string());
    let mut connection = world.services.queues.connection();
    let mut compared = 0;
    while compared < 200 {
        // a renewal in between would make them incomparable
        let before = lease_ends(&world, &hook).await;
        let ends: i64 = redis::cmd("PEXPIRETIME").arg(&key).query_async(&mut connection).await.unwrap();
        if ends > 0 && lease_ends(&world, &hook).await == before {
            assert!(ends <= before, "{ends} after {before}");
            compared += 1;
        }
    }
    // one whose command reaches Redis late is none
    holder.stop().await;
    assert_eq!(registration(&world, &hook).await, None);
    assert!(!is_leased(&world, &hook).await);
}

/// When the lease of a lane ends, in milliseconds; Redis and Postgres of the tests have the same clock.
async fn lease_ends(world: &World, hook: &Hook) -> i64 {
    let ends = "SELECT to_jsonb((extract(epoch FROM leased_until) * 1000)::bigint) FROM webhook_lane WHERE webhook_id = $1";
    world.value(ends, hook).await.as_i64().unwrap()
}

/// Moves the clock of this process, and not that of Postgres: no lease ends there before its holder believes so.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_lane_does_not_stay_warm_for_ever(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (busy, idle) = (world.hook("/busy", json!({})).await, world.hook("/idle", json!({})).await);
    let holder = Holder::start(&world);
    holder.warm(&world, &busy).await;
    holder.warm(&world, &idle).await;
    let lease = token(&world, &busy).await;
    let began = tokio::time::Instant::now();
    let (mut made, mut rested) = (0, None);
    while is_leased(&world, &busy).await && token(&world, &busy).await == lease {
        hand_over(&world, changes(&world, &busy, 1).await);
        made += 1;
        // nothing brings what comes after the lease from the queue to this worker
        until("it is sent, or the lease is given back", async || {
            world.receiver.requests() >= made + 2 || !is_leased(&world, &busy).await
        })
        .await;
        if rested.is_none() && !is_leased(&world, &idle).await {
            rested = Some(began.elapsed());
        }
        pass(Duration::from_millis(200)).await;
        assert!(began.elapsed() < Duration::from_secs(40), "so that secrets end in time");
    }
    assert!(began.elapsed() > Duration::from_secs(25), "{:?}", began.elapsed());
    let rested = rested.unwrap();
    assert!((Duration::from_secs(8)..Duration::from_secs(20)).contains(&rested), "{rested:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_batch_that_becomes_full_in_a_warm_lane_is_sent_at_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, hook, _holder) =
        warm_lane(&options, json!({"batch": {"maxEvents": 3, "maxWaitMs": 60_000}})).await;
    let token = token(&world, &hook).await;
    // each has its hint, as the change of a product has
    for sku in ["A", "B", "C"] {
        world.product(sku).await;
    }
    world.receiver.wait_for(2, PATIENCE).await.unwrap();
    let last: Value = serde_json::from_slice(&world.receiver.receipts_at("/hook")[1].body).unwrap();
    assert_eq!(last["events"].as_array().unwrap().len(), 3);
    assert_eq!(super::token(&world, &hook).await, token, "by the holder of the lane");
}
