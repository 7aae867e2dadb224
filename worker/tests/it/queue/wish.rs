//! The operator's wishes are rows in Postgres, which every worker applies.

use std::sync::Arc;
use std::time::Duration;

use longshore_domain::job::kind::JobKind;
use longshore_domain::standing::queue;
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::queue::{Queue, control};
use longshore_kernel::services::Services;
use longshore_worker::dispatcher::{self, Controlled, obey};
use longshore_worker::queue::{QueueControl, RedisStream};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{Journal, QUEUE, Worker, eventually, ids, patient, put, taking, until};
use crate::job::support::World;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_worker_applies_the_wish_and_returns_to_its_own_setting(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (services, context) = (&world.services, &world.context);
    let workers = [3, 5].map(|concurrency| Controlled::new(QUEUE, QueueControl::new(concurrency)));
    let status = async || {
        obey(services, &workers).await.unwrap();
        workers.each_ref().map(|worker| (worker.handle.is_paused(), worker.handle.concurrency()))
    };
    assert_eq!(status().await, [(false, 3), (false, 5)]);
    queue::pause(services, context, "chunk", None).await.unwrap();
    queue::update(services, context, "chunk", json!({"concurrency": 7})).await.unwrap();
    queue::pause(services, context, "lane", None).await.unwrap();
    assert_eq!(status().await, [(true, 7), (true, 7)]);
    queue::update(services, context, "chunk", json!({"concurrency": null})).await.unwrap();
    queue::resume(services, context, "chunk").await.unwrap();
    assert_eq!(status().await, [(false, 3), (false, 5)]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_pause_of_upkeep_always_ends_by_itself_after_an_hour(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (services, context) = (&world.services, &world.context);
    let workers = [Controlled::new(Queue::Upkeep, QueueControl::new(1))];
    let paused = async || {
        obey(services, &workers).await.unwrap();
        workers[0].handle.is_paused()
    };
    let recorded = async || -> (bool, Option<f64>) {
        sqlx::query_as(
            "SELECT paused, extract(epoch FROM resumes_at - now())::float8 FROM queue WHERE name = 'upkeep'",
        )
        .fetch_one(&world.owner)
        .await
        .unwrap()
    };
    queue::pause(services, context, "upkeep", None).await.unwrap();
    assert!(paused().await);
    let (_, left) = recorded().await;
    assert!((3_500.0..=3_600.0).contains(&left.unwrap()), "{left:?}");

    world.execute("UPDATE queue SET resumes_at = now() - interval '1 second' WHERE name = 'upkeep'").await;
    // several workers notice it at the same time
    let all = futures::future::join_all((0..4).map(|_| obey(services, &workers))).await;
    assert!(all.into_iter().all(|obeyed| obeyed.is_ok()));
    assert_eq!((paused().await, recorded().await), (false, (false, None)));
    let resumed: Vec<(String, String, Option<String>)> = sqlx::query_as(
        "SELECT actor_type, actor_name, changes ->> 'paused' FROM audit WHERE action = 'queue.resume'",
    )
    .fetch_all(&world.owner)
    .await
    .unwrap();
    let by_the_clock = ("schedule".to_owned(), "upkeep".to_owned(), Some("[true, false]".to_owned()));
    assert_eq!(resumed, [by_the_clock]);

    // like a process of the previous version that pauses and resumes
    let switch = async |name: &'static str, to: &'static str| {
        sqlx::query("UPDATE queue SET paused = $2::bool, changed_at = now() WHERE name = $1")
            .bind(name)
            .bind(to)
            .execute(&world.owner)
            .await
            .unwrap();
    };
    switch("upkeep", "true").await;
    assert!(recorded().await.1.is_some());
    switch("upkeep", "false").await;
    assert_eq!(recorded().await, (false, None));
    // other queues stay paused until the operator resumes them
    switch("lane", "true").await;
    let lane = control::wishes(&services.db.main).await.unwrap()[2];
    assert_eq!((lane.queue, lane.paused, lane.resumes_at), (Queue::Lane, true, None));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_paused_queue_is_neither_read_nor_filled_until_it_is_resumed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (services, context) = (&world.services, &world.context);
    queue::pause(services, context, "chunk", None).await.unwrap();
    let journal = Arc::new(Journal::default());
    let stream = RedisStream::new(&services.queues, QUEUE, patient(2));
    let controlled = vec![Controlled::new(QUEUE, stream.control())];
    obey(services, &controlled).await.unwrap();
    let worker = Worker::run(stream, taking(Duration::ZERO, &journal));
    let dispatcher = tokio::spawn(dispatcher::run(world.worker.clone(), controlled));

    // due in Postgres, and lost by Redis: only a dispatcher could queue it
    world.switch(JobKind::ProductActivate, &[uuid::Uuid::max().into()]).await;
    let depth = async |queue| services.queues.stats(queue).await.unwrap().depth;
    eventually("it is handed over", async || (depth(QUEUE).await == 1).then_some(())).await;
    lose(services, QUEUE).await;
    let names = ids("a", 3);
    put(&services.queues, &names).await;
    // another queue is still filled; the second time, a whole look has passed
    let webhook = world.webhook("test").await;
    world
        .execute(
            "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
         SELECT uuid_v7(), id, eshop_id, uuid_v7(), now() FROM webhook",
        )
        .await;
    for _ in 0..2 {
        lose(services, Queue::Lane).await;
        eventually("the dispatcher has looked", async || (depth(Queue::Lane).await == 1).then_some(())).await;
    }
    assert_eq!((depth(QUEUE).await, journal.started()), (3, 0), "{webhook}");

    queue::resume(services, context, "chunk").await.unwrap();
    journal.all_ended(&names).await;
    until("what was lost is found", || journal.ended() > 3).await;
    world.worker.stop.cancel();
    dispatcher.await.unwrap();
    worker.stop().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_part_of_a_look_that_fails_keeps_no_other_from_being_queued(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    // neither jobs nor handovers can be looked for
    world
        .execute(
            "ALTER TABLE job_chunk RENAME calls_partner TO gone;
             ALTER TABLE wms_setting RENAME fills TO gone;",
        )
        .await;
    world.webhook("test").await;
    world
        .execute(
            "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
             SELECT uuid_v7(), id, eshop_id, uuid_v7(), now() FROM webhook",
        )
        .await;
    let dispatcher = tokio::spawn(dispatcher::run(world.worker.clone(), Vec::new()));
    for queue in [Queue::Lane, Queue::Upkeep] {
        let depth = async || world.services.queues.stats(queue).await.unwrap().depth;
        eventually("what is due is queued", async || (depth().await > 0).then_some(())).await;
    }
    world.worker.stop.cancel();
    dispatcher.await.unwrap();
}

/// Deletes a queue from Redis.
async fn lose(services: &Services, queue: Queue) {
    let mut connection = services.queues.connection();
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg(format!("{}*", services.queues.keys(queue).stream().trim_end_matches('s')))
        .query_async(&mut connection)
        .await
        .unwrap();
    if !keys.is_empty() {
        let () = redis::cmd("DEL").arg(keys).query_async(&mut connection).await.unwrap();
    }
}
