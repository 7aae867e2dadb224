//! Leases of lanes: who may send, which deliveries a lease returns, and which outcomes are recorded.

use std::collections::HashMap;
use std::time::Duration;

use longshore_domain::calling::Renewed;
use longshore_domain::webhook::lane::{self, Attempt, End, FEW, Looked, Outcome};
use longshore_kernel::ids::DeliveryId;
use longshore_kernel::pools::LEASE_CONNECTIONS;
use longshore_testkit::receiver::{Answer, Receiver};
use longshore_testkit::services;
use longshore_worker::lanes::{self, Ran};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::support::{Hook, PATIENCE, World, worker};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// The outcome of a delivery under a lease.
pub(super) fn outcome(world: &World, hook: &Hook, token: i64, delivery: DeliveryId, end: End) -> Outcome {
    Outcome {
        delivery,
        webhook: hook.id,
        token,
        probe: false,
        organisation: world.tenant.organisation,
        event_type: "product_change".to_owned(),
        entity: Uuid::nil(),
        end,
        attempt: None,
        hold: None,
        batch: None,
    }
}

/// A failed outcome of the one due delivery, under a new lease of its lane.
async fn failed(world: &World, hook: &Hook, status: u16) -> Outcome {
    let lease = world.lease(hook).await;
    let from_start = lane::From::default();
    let due = lane::fetch(&world.services.db, &lease, from_start).await.unwrap().due;
    let attempt = Attempt {
        number: 1,
        at: world.services.clock.now(),
        duration_ms: 1,
        status: Some(status),
        error: None,
        response: None,
        headers: None,
    };
    let failed = End::Failed { wait: Duration::from_secs(5) };
    Outcome { attempt: Some(attempt), ..outcome(world, hook, lease.token, due[0].id, failed) }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_outcome_under_an_older_token_changes_nothing(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.events(&hook, 2).await;
    let old = world.lease(&hook).await;
    let from_start = lane::From::default();
    let due = lane::fetch(&world.services.db, &old, from_start.clone()).await.unwrap().due;
    assert_eq!(due.len(), 2);
    let left = lane::release(&world.services.db, &[(hook.id, old.token)]).await.unwrap();
    assert!(left.contains(&hook.id));
    let new = world.lease(&hook).await;
    assert!(new.token > old.token);
    let wait = Duration::from_mins(1);
    for (n, end) in [(0, End::Delivered), (1, End::Failed { wait })] {
        let reported = lane::record(&world.services, &[outcome(&world, &hook, old.token, due[n].id, end)])
            .await
            .unwrap();
        assert!(reported[0].stale);
    }
    let untouched = "SELECT to_jsonb(count(*)) FROM delivery WHERE webhook_id = $1 AND attempt_count = 0 AND next_attempt_at < now()";
    assert_eq!(world.value(untouched, &hook).await, 2);
    assert_eq!(lane::renew(&world.services.db, &old, false).await.unwrap(), Renewed::No);
    assert_eq!(lane::renew(&world.services.db, &new, false).await.unwrap(), Renewed::Yes);
    let none = lane::fetch(&world.services.db, &old, from_start).await.unwrap();
    assert!(none.due.is_empty());
    let reported =
        lane::record(&world.services, &[outcome(&world, &hook, new.token, due[0].id, End::Delivered)])
            .await
            .unwrap();
    assert!(!reported[0].stale);
    assert_eq!(world.live(&hook).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_lanes_are_leased_by_one_statement_and_each_has_its_own_first_deliveries(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let [few, many, ordered, leased, paused] = [
        world.hook("/few", json!({})).await,
        world.hook("/many", json!({})).await,
        world.hook("/ordered", json!({ "ordered": true })).await,
        world.hook("/leased", json!({})).await,
        world.hook("/paused", json!({ "active": false })).await,
    ];
    let more = i32::try_from(FEW).unwrap() + 1;
    for (hook, deliveries) in [(&few, 3), (&many, more), (&ordered, 1), (&leased, more), (&paused, more)] {
        world.events(hook, deliveries).await;
    }
    let db = &world.services.db;
    let held = world.lease(&leased).await;

    let asked = [few.id, many.id, ordered.id, leased.id, paused.id, Uuid::max().into()];
    let leases = lane::lease(&world.services, &asked).await.unwrap();
    let leases: HashMap<_, _> = leases.into_iter().map(|(id, leased)| (id, leased.unwrap())).collect();
    let mut got: Vec<_> = leases.keys().copied().collect();
    got.sort_unstable();
    let mut free = vec![few.id, many.id, ordered.id];
    free.sort_unstable();
    assert_eq!(got, free);

    assert!(leases[&ordered.id].first.is_none(), "an ordered lane looks by itself");
    let batch = leases[&few.id].first.as_ref().unwrap();
    assert_eq!((batch.due.len(), batch.is_full), (3, false));
    let batch = leases[&many.id].first.as_ref().unwrap();
    assert_eq!((batch.due.len(), batch.is_full), (FEW, true));
    let after = lane::From { after: batch.cursor, ..lane::From::default() };
    let rest = lane::fetch(db, &leases[&many.id].lease, after).await.unwrap();
    assert_eq!((rest.due.len(), rest.is_full), (1, false), "it goes on where the first ended");
    assert!(batch.due.iter().all(|sent| sent.id != rest.due[0].id));

    // a lane whose lease is not the latest remains leased by its current holder
    let mut given_back: Vec<_> =
        leases.values().map(|leased| (leased.lease.webhook, leased.lease.token)).collect();
    given_back.push((leased.id, held.token - 1));
    lane::release(db, &given_back).await.unwrap();
    assert_eq!(lane::lease(&world.services, &asked).await.unwrap().len(), 3);

    // a lane whose lease has expired looks for itself, because its last holder may have recorded outcomes
    // after the look
    sqlx::query("UPDATE webhook_lane SET leased_until = now() - interval '1 s'")
        .execute(&db.main)
        .await
        .unwrap();
    let leases = lane::lease(&world.services, &asked).await.unwrap();
    assert_eq!(leases.len(), 4);
    assert!(leases.values().all(|leased| leased.as_ref().unwrap().first.is_none()));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_destination_that_is_gone_is_recorded_during_a_change_of_its_webhook(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.events(&hook, 1).await;
    let gone = failed(&world, &hook, 410).await;
    // a change of a webhook locks it, then its lane
    let mut changing = world.services.db.main.begin().await.unwrap();
    let lock = "SELECT FROM webhook WHERE id = $1 FOR UPDATE";
    sqlx::query(lock).bind(hook.id).execute(&mut *changing).await.unwrap();
    let services = world.services.clone();
    let recording = tokio::spawn(async move { lane::record(&services, &[gone]).await });
    services::until_locked(&world.pool, 1).await.unwrap();
    let lock = "UPDATE webhook_lane SET failures = 0 WHERE webhook_id = $1";
    sqlx::query(lock)
        .bind(hook.id)
        .execute(&mut *changing)
        .await
        .expect("it waits for none of those that wait for it");
    changing.commit().await.unwrap();
    assert!(recording.await.unwrap().unwrap()[0].disabled);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_attempt_is_counted_once_however_often_it_is_recorded(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.events(&hook, 1).await;
    let failed = failed(&world, &hook, 500).await;
    for _ in 0..2 {
        // as when the answer to a commit is lost
        lane::record(&world.services, std::slice::from_ref(&failed)).await.unwrap();
    }
    let attempts = "SELECT jsonb_build_array(attempt_count, jsonb_array_length(attempts)) FROM delivery
                    WHERE webhook_id = $1";
    assert_eq!(world.value(attempts, &hook).await, json!([1, 1]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_lane_that_is_being_written_is_not_waited_for(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let [free, written] = [world.hook("/free", json!({})).await, world.hook("/written", json!({})).await];
    let mut other = world.services.db.main.begin().await.unwrap();
    sqlx::query("SELECT FROM webhook_lane WHERE webhook_id = $1 FOR UPDATE")
        .bind(written.id)
        .execute(&mut *other)
        .await
        .unwrap();
    let both = [free.id, written.id];
    let leasing = lane::lease(&world.services, &both);
    let leased = tokio::time::timeout(PATIENCE, leasing).await.expect("it waited").unwrap();
    assert_eq!(leased.into_keys().collect::<Vec<_>>(), [free.id]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_lease_is_renewed_while_other_lanes_are_locked_and_work_uses_all_connections(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let services = services::with_connections(&options, LEASE_CONNECTIONS + 1).unwrap();
    let world = World::over(services, &options, Receiver::start().await.unwrap()).await;
    let db = &world.services.db;
    let free = world.hook("/free", json!({})).await;
    let lease = world.lease(&free).await;
    let mut locked = Vec::new();
    for _ in 0..LEASE_CONNECTIONS {
        locked.push(world.lease(&world.hook("/locked", json!({})).await).await);
    }
    let mut holder = world.pool.begin().await.unwrap();
    sqlx::query("SELECT FROM webhook_lane WHERE webhook_id <> $1 FOR UPDATE")
        .bind(free.id)
        .execute(&mut *holder)
        .await
        .unwrap();
    let renewing = locked.into_iter().map(|lease| {
        let db = db.clone();
        tokio::spawn(async move { lane::renew(&db, &lease, false).await })
    });
    let renewing: Vec<_> = renewing.collect();
    services::until_locked(&world.pool, i64::from(LEASE_CONNECTIONS)).await.unwrap();
    let last = db.main.acquire().await.unwrap();

    assert_eq!(lane::renew(db, &lease, false).await.unwrap(), Renewed::Yes);
    let looked = lane::look(db, &[&lease]).await.unwrap();
    assert_eq!(looked, [Some(Looked { renewed: Renewed::Yes, due_in: None })]);
    assert!(renewing.iter().all(|renewing| !renewing.is_finished()));
    drop(last);
    holder.rollback().await.unwrap();
    for renewed in renewing {
        assert_eq!(renewed.await.unwrap().unwrap(), Renewed::Yes);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn two_workers_on_one_lane_send_each_delivery_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    let other = worker(&world.services);
    let events = world.events(&hook, 1_000).await;
    while world.live(&hook).await > 0 {
        let (a, b) = tokio::join!(lanes::run(&world.worker, hook.id), lanes::run(&other, hook.id));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(a == Ran::NotLeased || b == Ran::NotLeased || world.live(&hook).await == 0, "{a:?} {b:?}");
    }
    let counts = world.receiver.counts_by("webhook-id");
    assert_eq!(counts.len(), events.len());
    assert!(counts.values().all(|n| *n == 1));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_worker_that_dies_is_followed_by_another_when_its_lease_ends(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({})).await;
    world.receiver.answer("/hook", Answer::Sequence(vec![Answer::Hang, Answer::Status(204)]));
    world.events(&hook, 1).await;
    let first = worker(&world.services);
    let id = hook.id;
    let dying = tokio::spawn(async move { lanes::run(&first, id).await });
    world.receiver.wait_for(1, PATIENCE).await.unwrap();
    assert_eq!(lanes::run(&world.worker, hook.id).await.unwrap(), Ran::NotLeased);
    assert!(lane::due(&world.services.db, None, 10).await.unwrap().lanes.is_empty());
    dying.abort();
    // the lease ends by the clock of Postgres; then the dispatcher finds the lane
    let found = tokio::time::timeout(Duration::from_secs(5), async {
        while lane::due(&world.services.db, None, 10).await.unwrap().lanes != [hook.id] {
            tokio::task::yield_now().await;
        }
    });
    found.await.unwrap();
    world.drain(&hook).await;
    assert_eq!(world.ended(&hook, "delivered").await, 1);
    assert_eq!(world.receiver.counts_by("webhook-id").into_values().collect::<Vec<_>>(), [2]);
}
