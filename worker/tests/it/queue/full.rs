//! A full Redis: it answers, but refuses writes. The worker reports that, nothing is lost, and work resumes
//! by itself.

use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use longshore_domain::job::kind::JobKind;
use longshore_domain::standing::{self, Verdict};
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::queue::{Queue, RedisState};
use longshore_testkit::little_redis::{LittleRedis, MAX_MEMORY};
use longshore_testkit::services;
use longshore_worker::dispatcher::{self, Controlled};
use longshore_worker::health;
use longshore_worker::jobs::chunk;
use longshore_worker::queue::RedisStream;
use serde_json::Value;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tower::ServiceExt as _;

use super::support::{Worker, eventually, handler, quick};
use crate::job::support::World;

/// An answer of the worker.
async fn ask(world: &World, path: &str) -> (StatusCode, String) {
    let request = Request::builder().uri(path).body(Body::empty()).unwrap();
    let answer = health::router(world.worker.clone()).oneshot(request).await.unwrap();
    let status = answer.status();
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn ready(world: &World) -> (StatusCode, Value) {
    let (status, body) = ask(world, "/health/ready").await;
    (status, serde_json::from_str(&body).unwrap())
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_worker_with_a_full_redis_is_not_ready_and_resumes_by_itself(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let redis = LittleRedis::start().await.unwrap();
    let mut services = services::for_test(&options).unwrap();
    services.queues = redis.queues().unwrap();
    let world = World::over(services, &options).await;
    let services = &world.services;
    let (status, body) = ready(&world).await;
    assert_eq!((status, &body["redis"], &body["redisReason"]), (StatusCode::OK, &"up".into(), &Value::Null));
    assert_eq!(body["redisMemory"]["maxBytes"], MAX_MEMORY);

    let stream = RedisStream::new(&services.queues, Queue::Chunk, quick(2));
    let controlled = vec![Controlled::new(Queue::Chunk, stream.control())];
    let context = world.worker.clone();
    let worker = Worker::run(
        stream,
        handler(move |job| {
            let context = context.clone();
            async move {
                chunk::run(context, job.id).await;
                Ok(())
            }
        }),
    );
    let read = async || standing::read(services).await.unwrap();
    eventually("the worker reads the queue", async || {
        (read().await.queues[0].workers == Some(1)).then_some(())
    })
    .await;

    redis.fill().await.unwrap();
    let dispatcher = tokio::spawn(dispatcher::run(world.worker.clone(), controlled));
    let (status, body) = ready(&world).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
    for (member, expected) in
        [("status", "unavailable"), ("postgres", "up"), ("redis", "down"), ("redisReason", "refuses_writes")]
    {
        assert_eq!(body[member], expected, "{body}");
    }
    assert!(body["redisMemory"]["usedBytes"].as_u64().unwrap() > MAX_MEMORY, "{body}");

    let products = world.products(3).await;
    let job = world.switch(JobKind::ProductDeactivate, &products).await;
    eventually("the dispatcher has tried in vain", async || {
        (services.queues.failed(Queue::Chunk) > 1).then_some(())
    })
    .await;
    let status = read().await;
    let queue = &status.queues[0];
    assert_eq!(status.redis.state, RedisState::RefusesWrites);
    assert!(status.redis.error.as_ref().unwrap().contains("OOM"), "{status:?}");
    assert_eq!((queue.depth, queue.recorded.due, queue.verdict()), (Some(0), Some(1), Verdict::Refused));
    let (_, metrics) = ask(&world, "/metrics").await;
    for line in ["longshore_up{part=\"redis\"} 0", "longshore_redis_memory_max_bytes 4194304"] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    let failed =
        metrics.lines().find_map(|l| l.strip_prefix("longshore_queue_put_failures_total{queue=\"chunk\"} "));
    assert!(failed.unwrap().parse::<u64>().unwrap() > 0, "{metrics}");

    redis.free().await.unwrap();
    eventually("the job is done", async || {
        let state: String = sqlx::query_scalar("SELECT state FROM job WHERE id = $1")
            .bind(job)
            .fetch_one(&world.owner)
            .await
            .unwrap();
        (state == "succeeded").then_some(())
    })
    .await;
    let (status, body) = ready(&world).await;
    assert_eq!((status, &body["redis"]), (StatusCode::OK, &"up".into()));
    eventually("the queue is idle", async || {
        (read().await.queues[0].verdict() == Verdict::Idle).then_some(())
    })
    .await;
    world.worker.stop.cancel();
    dispatcher.await.unwrap();
    worker.stop().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_due_count_is_the_number_of_entries_that_the_dispatcher_finds(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let services = &world.services;
    let counted = async || {
        let due = longshore_domain::job::dispatch::due(&services.db.main).await.unwrap();
        let waiting = longshore_domain::job::dispatch::waiting(&services.db.main).await.unwrap();
        for waiting in &waiting {
            let found = due.iter().filter(|(queue, _)| *queue == waiting.queue).count();
            assert_eq!(waiting.due, i64::try_from(found).unwrap(), "{waiting:?}");
            assert_eq!(waiting.oldest_seconds.is_some(), found > 0, "{waiting:?}");
        }
        due.len()
    };
    assert_eq!(counted().await, 0);
    let products = world.products(2).await;
    for _ in 0..3 {
        world.switch(JobKind::ProductActivate, &products).await;
    }
    let first = counted().await;
    assert!(first > 0);
    // a chunk that waits for its next attempt is open, but not due
    world.execute("UPDATE job_chunk SET next_attempt_at = now() + interval '1 hour'").await;
    assert_eq!(counted().await, 0);
    let status = standing::read(services).await.unwrap();
    assert_eq!((status.queues[0].recorded.open, status.queues[0].recorded.due), (Some(3), Some(0)));
    // the work of a dead process is due
    world
        .execute(
            "UPDATE job_chunk SET state = 'running', leased_until = now() - interval '1 minute', started_at = now()
             WHERE job_id = (SELECT id FROM job ORDER BY acceptance LIMIT 1)",
        )
        .await;
    assert_eq!(counted().await, 1);
}
