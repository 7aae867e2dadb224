//! What the operator wishes is a row in Postgres, and every worker obeys.

use std::sync::Arc;
use std::time::Duration;

use longshore_shared::job::kind::JobKind;
use longshore_shared::job::queue::{Queue, control};
use longshore_shared::platform::database::MIGRATIONS;
use longshore_shared::platform::services::Services;
use longshore_worker::dispatcher::{self, Controlled, obey};
use longshore_worker::queue::{QueueControl, RedisStream};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{Journal, QUEUE, Worker, eventually, ids, patient, put, taking, until};
use crate::job::support::World;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_worker_follows_the_wish_and_goes_back_to_its_own_setting(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (services, context) = (&world.services, &world.context);
    let workers = [3, 5].map(|concurrency| Controlled::new(QUEUE, QueueControl::new(concurrency)));
    let stands = async || {
        obey(services, &workers).await.unwrap();
        workers.each_ref().map(|worker| (worker.handle.is_paused(), worker.handle.concurrency()))
    };
    assert_eq!(stands().await, [(false, 3), (false, 5)]);
    control::set_paused(services, context, "chunk", true).await.unwrap();
    control::update(services, context, "chunk", json!({"concurrency": 7})).await.unwrap();
    control::set_paused(services, context, "lane", true).await.unwrap();
    assert_eq!(stands().await, [(true, 7), (true, 7)]);
    control::update(services, context, "chunk", json!({"concurrency": null})).await.unwrap();
    control::set_paused(services, context, "chunk", false).await.unwrap();
    assert_eq!(stands().await, [(false, 3), (false, 5)]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_paused_queue_is_neither_read_nor_filled_until_it_is_resumed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (services, context) = (&world.services, &world.context);
    control::set_paused(services, context, "chunk", true).await.unwrap();
    let journal = Arc::new(Journal::default());
    let stream = RedisStream::new(&services.queues, QUEUE, patient(2));
    let controlled = vec![Controlled::new(QUEUE, stream.control())];
    obey(services, &controlled).await.unwrap();
    let worker = Worker::run(stream, taking(Duration::ZERO, &journal));
    let dispatcher = tokio::spawn(dispatcher::run(world.worker.clone(), controlled));

    // due in Postgres, and lost by Redis: only a dispatcher could put it on the queue
    world.switch(JobKind::ProductActivate, &[uuid::Uuid::max()]).await;
    let depth = async |queue| services.queues.stats(queue).await.unwrap().depth;
    eventually("it is handed over", async || (depth(QUEUE).await == 1).then_some(())).await;
    lose(services, QUEUE).await;
    let names = ids("a", 3);
    put(&services.queues, &names).await;
    // another queue goes on being filled; the second time, a whole look has gone by
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

    control::set_paused(services, context, "chunk", false).await.unwrap();
    journal.all_ended(&names).await;
    until("what was lost is found", || journal.ended() > 3).await;
    world.worker.stop.cancel();
    dispatcher.await.unwrap();
    worker.stop().await;
}

/// Redis forgets a queue.
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
