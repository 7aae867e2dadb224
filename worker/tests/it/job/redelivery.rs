//! Redelivery: recoveries, deliveries by their ids, and all that match a search.

use longshore_domain::job::chunk::{self as claims, Claimed};
use longshore_domain::job::{control, dispatch};
use longshore_domain::webhook::delivery::search::{self, Filter};
use longshore_domain::webhook::delivery::{self, recovery};
use longshore_kernel::change::Change;
use longshore_kernel::ids::{DeliveryId, JobId, WebhookId};
use longshore_kernel::migration::MIGRATIONS;
use longshore_worker::jobs::chunk;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

/// A few more deliveries than one step.
pub(super) const MORE: i32 = 2_050;

/// Inserts ended deliveries, each of its own event, one per second until now; returns their ids in order.
pub(super) async fn ended(world: &World, hook: WebhookId, state: &str, count: i32) -> Vec<DeliveryId> {
    sqlx::query_scalar(
        "WITH recorded AS (
             INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data)
             SELECT uuid_v7(), 'product_change', $1, 'product', gen_random_uuid(), '{}' FROM generate_series(1, $5)
             RETURNING id, entity_id
         ), in_order AS (
             SELECT *, row_number() OVER (ORDER BY id) AS n FROM recorded
         ), ended AS (
             INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
                 attempt_count, attempts, created_at, finished_at)
             SELECT uuid_v7(), $2, $3, $1, id, 'product_change', entity_id, $4, 10, '[]',
                    now() - make_interval(secs => $5 - n + 60), now() - make_interval(secs => $5 - n)
             FROM in_order ORDER BY n RETURNING id, finished_at
         )
         SELECT id FROM ended ORDER BY finished_at",
    )
    .bind(world.tenant.organisation)
    .bind(hook)
    .bind(world.tenant.eshop)
    .bind(state)
    .bind(count)
    .fetch_all(&world.owner)
    .await
    .unwrap()
}

/// Inserts failed deliveries that wait for hours.
pub(super) async fn waiting(world: &World, hook: WebhookId, count: i32) {
    sqlx::query(
        "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, attempt_count, created_at)
         SELECT uuid_v7(), $1, $2, gen_random_uuid(), now() + interval '5 hours', 1, now() - n * interval '1 second'
         FROM generate_series(1, $3) n",
    )
    .bind(hook)
    .bind(world.tenant.eshop)
    .bind(count)
    .execute(&world.owner)
    .await
    .unwrap();
}

pub(super) async fn recover(world: &World, hook: WebhookId) -> JobId {
    let since = json!({"since": "2020-01-01T00:00:00Z"});
    delivery::recover(&world.services, &world.context, hook, since).await.unwrap().job.unwrap()
}

pub(super) async fn redeliver(world: &World, ids: &[DeliveryId]) -> JobId {
    delivery::redeliver_many(&world.services, &world.context, json!(ids)).await.unwrap().job.unwrap()
}

/// Figures of a job: state, `[total, changed, unchanged, failed]`, `[released, resent]`.
pub(super) async fn shown(world: &World, job: JobId) -> (String, [i64; 4], [i64; 2]) {
    let job = world.job(job).await;
    let count = |name: &str| job[name].as_i64().unwrap();
    assert_eq!(count("done"), count("changed") + count("unchanged") + count("failed"));
    let progress = ["total", "changed", "unchanged", "failed"].map(count);
    (job["state"].as_str().unwrap().to_owned(), progress, ["released", "resent"].map(count))
}

pub(super) fn succeeded(progress: [i64; 4], result: [i64; 2]) -> (String, [i64; 4], [i64; 2]) {
    ("succeeded".to_owned(), progress, result)
}

pub(super) const MADE: &str = "SELECT count(*) FROM delivery WHERE redelivery_of IS NOT NULL";
pub(super) const DUE: &str =
    "SELECT count(*) FROM delivery WHERE redelivery_of IS NULL AND next_attempt_at <= now()";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_recovery_proceeds_step_by_step_and_counts_its_deliveries(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (hook, other) = (world.webhook("test").await, world.webhook("test").await);
    ended(&world, hook, "exhausted", MORE).await;
    ended(&world, hook, "delivered", 3).await;
    ended(&world, other, "exhausted", 3).await;
    waiting(&world, hook, MORE).await;
    waiting(&world, other, 3).await;
    let more = i64::from(MORE);

    let job = recover(&world, hook).await;
    assert_eq!(shown(&world, job).await, ("queued".to_owned(), [2 * more, 0, 0, 0], [0, 0]));
    assert_eq!(world.drain().await, 3, "steps");

    assert_eq!(shown(&world, job).await, succeeded([2 * more, 2 * more, 0, 0], [more, more]));
    assert_eq!((world.count(MADE).await, world.count(DUE).await), (more, more));
    let twice =
        "SELECT count(*) FROM (SELECT event_id FROM delivery GROUP BY event_id HAVING count(*) > 1) d";
    assert_eq!(world.count(twice).await, 0);
    let in_order = "SELECT count(*) FROM (
                        SELECT h.finished_at < lag(h.finished_at) OVER (ORDER BY d.next_attempt_at, d.id) AS wrong
                        FROM delivery d JOIN delivery_history h ON h.id = d.redelivery_of) o WHERE wrong";
    assert_eq!(world.count(in_order).await, 0);
    let audited: Vec<Value> =
        sqlx::query_scalar("SELECT changes -> 'released' FROM audit WHERE action = 'webhook.recover' AND job_id = $1 ORDER BY id")
            .bind(job)
            .fetch_all(&world.owner)
            .await
            .unwrap();
    assert_eq!(audited, [json!([null, 2_000]), json!([null, 50]), json!([null, 0])]);

    // everything is being sent now
    let job = recover(&world, hook).await;
    world.drain().await;
    assert_eq!(shown(&world, job).await, succeeded([more, 0, more, 0], [0, 0]));
    assert_eq!(world.count(MADE).await, more);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_recovery_without_deliveries_succeeds_with_zero_counts(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.webhook("test").await;
    let job = recover(&world, hook).await;
    world.drain().await;
    assert_eq!(shown(&world, job).await, succeeded([0, 0, 0, 0], [0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_recovery_whose_worker_dies_continues_and_sends_nothing_twice(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.webhook("test").await;
    ended(&world, hook, "exhausted", MORE).await;
    let job = recover(&world, hook).await;
    // dies after the changes of a step, before the commit
    let Claimed::Now(claim) = claims::claim(&world.services.db.main, job, 0, false).await.unwrap() else {
        panic!("it is due")
    };
    let mut change = Change::begin(&world.services).await.unwrap();
    let (recover, ()) = claim.job::<recovery::Recover>().unwrap();
    assert_eq!(recovery::step(&mut change, &claim, &recover).await.unwrap().resent, 2_000);
    drop(change);
    let expired = "UPDATE job_chunk SET leased_until = now() - interval '1 second'";
    world.execute(expired).await;
    world.drain().await;
    let more = i64::from(MORE);
    assert_eq!(shown(&world, job).await, succeeded([more, more, 0, 0], [0, more]));
    assert_eq!(world.count(MADE).await, more);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_cancelled_recovery_stops_between_two_steps(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.webhook("test").await;
    ended(&world, hook, "exhausted", MORE).await;
    let job = recover(&world, hook).await;
    let due = dispatch::due(&world.services.db.main).await.unwrap();
    assert_eq!(due.len(), 1);
    chunk::run(world.worker.clone(), due[0].1.clone()).await;
    control::cancel(&world.services, &world.context, job).await.unwrap();
    assert_eq!(world.drain().await, 0);
    let (state, [total, changed, ..], result) = shown(&world, job).await;
    assert_eq!((state.as_str(), changed, result), ("cancelled", 2_000, [0, 2_000]));
    assert!(total > changed, "{total}: there was more to do");
    assert_eq!(world.count(MADE).await, 2_000);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn concurrent_recoveries_send_each_event_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.webhook("test").await;
    ended(&world, hook, "exhausted", 20).await;
    let jobs = [recover(&world, hook).await, recover(&world, hook).await, recover(&world, hook).await];
    let run = |job| chunk::run(world.worker.clone(), format!("{job}:0"));
    tokio::join!(run(jobs[0]), run(jobs[1]), run(jobs[2]));
    world.drain().await;
    let mut resent = 0;
    for job in jobs {
        resent += shown(&world, job).await.2[1];
    }
    assert_eq!((resent, world.count(MADE).await), (20, 20));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_recovery_fails_when_its_webhook_is_deleted(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.webhook("test").await;
    ended(&world, hook, "exhausted", 2).await;
    let job = recover(&world, hook).await;
    world.execute("DELETE FROM webhook").await;
    world.drain().await;
    let (state, [total, .., failed], _) = shown(&world, job).await;
    assert_eq!((state.as_str(), total, failed), ("failed", 2, 1));
    assert_eq!(world.job(job).await["error"], "the webhook was deleted");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn more_than_ten_thousand_are_sent_again_by_their_ids(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.webhook("test").await;
    let mut ids = ended(&world, hook, "delivered", 10_500).await;
    let expired = ids[7];
    sqlx::query("DELETE FROM event WHERE id = (SELECT event_id FROM delivery_history WHERE id = $1)")
        .bind(expired)
        .execute(&world.owner)
        .await
        .unwrap();
    ids.insert(3, DeliveryId::nil());
    ids.push(ids[0]);
    let job = redeliver(&world, &ids).await;
    world.drain().await;
    assert_eq!(shown(&world, job).await, succeeded([10_501, 10_499, 0, 2], [0, 10_499]));
    assert_eq!(
        world.errors(job).await,
        [format!("3 {} not_found", DeliveryId::nil()), format!("8 {expired} not_sendable")]
    );
    assert_eq!(world.count(MADE).await, 10_499);
    let audited = "SELECT count(*) FROM audit WHERE action = 'delivery.redeliver' AND job_id IS NOT NULL";
    assert_eq!(world.count(audited).await, 10_499);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn all_that_match_are_sent_again_each_event_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.webhook("test").await;
    ended(&world, hook, "delivered", MORE).await;
    let exhausted = ended(&world, hook, "exhausted", 3).await;
    // one was sent again, and its redelivery counts instead
    let later: DeliveryId = sqlx::query_scalar(
        "INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
             attempt_count, attempts, redelivery_of, created_at, finished_at)
         SELECT uuid_v7(), webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state, 1, '[]', id,
                now(), now() FROM delivery_history WHERE id = $1 RETURNING id",
    )
    .bind(exhausted[1])
    .fetch_one(&world.owner)
    .await
    .unwrap();
    let matching = async |wanted: Filter| {
        let known = search::count_matching(&world.services.db, hook, &wanted).await.unwrap();
        let answer =
            search::redeliver_matching(&world.services, &world.context, hook, &wanted).await.unwrap();
        world.drain().await;
        let (state, [total, ..], [_, resent]) = shown(&world, answer.job.unwrap()).await;
        assert_eq!((state.as_str(), total), ("succeeded", resent));
        (known, resent)
    };
    let state = |state: &str| Filter { state: Some(state.parse().unwrap()), ..Filter::default() };
    assert_eq!(matching(state("exhausted")).await, (3, 3));
    let mut repeated: Vec<DeliveryId> =
        sqlx::query_scalar("SELECT redelivery_of FROM delivery").fetch_all(&world.owner).await.unwrap();
    repeated.sort_unstable();
    let mut last = [exhausted[0], exhausted[2], later];
    last.sort_unstable();
    assert_eq!(repeated, last);
    assert_eq!(matching(state("delivered")).await, (MORE.into(), MORE.into()));
    let refused =
        search::redeliver_matching(&world.services, &world.context, hook, &state("cancelled")).await;
    assert_eq!(refused.unwrap_err().kind().status, 409);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn all_deliveries_that_match_are_sent_again(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (hook, other) = (world.webhook("test").await, world.webhook("test").await);
    let exhausted = ended(&world, hook, "exhausted", MORE).await;
    ended(&world, hook, "delivered", 3).await;
    ended(&world, other, "exhausted", 3).await;
    waiting(&world, hook, 5).await;
    let body = |count: i32| json!({"criteria": {"webhook": {"eq": hook}, "state": {"eq": "exhausted"}}, "expect": count});
    let accept = async |count| delivery::redeliver_many(&world.services, &world.context, body(count)).await;
    assert_eq!(accept(1).await.unwrap_err().kind().code, "count_differs");
    let job = accept(MORE).await.unwrap().job.unwrap();
    ended(&world, hook, "exhausted", 2).await;
    assert_eq!(world.drain().await, 2, "chunks");
    let more = i64::from(MORE);
    assert_eq!(shown(&world, job).await, succeeded([more, more, 0, 0], [0, more]));
    let mut of: Vec<DeliveryId> =
        sqlx::query_scalar("SELECT redelivery_of FROM delivery WHERE redelivery_of IS NOT NULL")
            .fetch_all(&world.owner)
            .await
            .unwrap();
    let mut expected = exhausted;
    of.sort_unstable();
    expected.sort_unstable();
    assert!(of == expected);
    // those that wait are found as well
    let pending = json!({"criteria": {"state": {"eq": "pending"}, "attemptCount": {"eq": 1}}, "expect": 5});
    delivery::redeliver_many(&world.services, &world.context, pending).await.unwrap();
}
