//! Neighbours: many lanes that hang or are busy, beside one that must be served at once. As in a worker, the
//! queue is read and places are taken.

use std::time::{Duration, Instant};

use apalis::prelude::{
    BoxDynError, ParallelizeExt as _, WorkerBuilder, WorkerBuilderExt as _, WorkerContext, WorkerError,
};
use futures::future::{BoxFuture, join_all};
use longshore_kernel::ids::WebhookId;
use longshore_kernel::queue::Queue;
use longshore_testkit::receiver::{Answer, Receiver};
use longshore_worker::lanes;
use longshore_worker::places::{Places, Use, WAITING};
use longshore_worker::queue::{Config, MAX_CONCURRENCY, QueueControl, RedisStream, spawn};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::task::JoinHandle;

use super::support::{Hook, PATIENCE, World};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// The time within which a neighbour must get its events, on a machine that is also busy with other tests. A
/// lane that waits for a hanging one waits fifteen seconds; the real figures are those of `./dev bench --only
/// fairness`.
const SOON: Duration = Duration::from_secs(2);

/// Reads the queue of lanes, with this many places.
struct Lanes {
    places: Places,
    run: JoinHandle<Result<(), WorkerError>>,
}

impl Lanes {
    fn start(world: &World, places: usize) -> Self {
        let config = Config { concurrency: places, ahead: WAITING, ..Config::default() };
        let control = QueueControl::new(places);
        let stream = RedisStream::<String>::controlled(control, &world.services.queues, Queue::Lane, config);
        let mut lanes = world.worker.clone();
        lanes.places = Places::new(places);
        let places = lanes.places.clone();
        let worker = WorkerBuilder::new(WorkerContext::new("lanes"))
            .backend(stream)
            .parallelize(spawn)
            .concurrency(MAX_CONCURRENCY + WAITING)
            .build(move |webhook: String| {
                let lanes = lanes.clone();
                let handled: BoxFuture<'static, Result<(), BoxDynError>> = Box::pin(async move {
                    let _ = lanes::run(&lanes, webhook.parse().unwrap()).await;
                    Ok(())
                });
                handled
            });
        let run = tokio::spawn(worker.run());
        Self { places, run }
    }

    async fn until(&self, what: &str, reached: impl Fn(Use) -> bool) {
        let looking = async {
            while !reached(self.places.in_use()) {
                tokio::task::yield_now().await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, looking).await;
        assert!(reached.is_ok(), "{what}: {:?}", self.places.in_use());
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.run.abort();
    }
}

async fn hooks(world: &World, path: &str, count: usize) -> Vec<Hook> {
    join_all((0..count).map(|_| world.hook(path, json!({})))).await
}

async fn put(world: &World, hooks: &[Hook]) {
    let ids: Vec<_> = hooks.iter().map(|hook| hook.id.to_string()).collect();
    world.services.queues.put(Queue::Lane, &ids, PATIENCE).await.unwrap();
}

/// Creates one event for each hook, as a change would; returns how long the last one took to arrive.
async fn tell(world: &World, hooks: &[Hook]) -> Duration {
    let before = world.receiver.requests();
    let began = Instant::now();
    join_all(hooks.iter().map(|hook| world.events(hook, 1))).await;
    put(world, hooks).await;
    let all = u64::try_from(hooks.len()).unwrap();
    world.receiver.wait_for(before + all, PATIENCE).await.unwrap();
    began.elapsed()
}

/// Makes every lane begin a call that is not answered.
async fn hang(world: &World, lanes: &Lanes, hooks: &[Hook], hanging: usize) {
    join_all(hooks.iter().map(|hook| world.events(hook, 1))).await;
    put(world, hooks).await;
    lanes.until("they hang", |used| used.slow >= hanging).await;
}

async fn neighbour(world: &World, options: &PgConnectOptions) -> World {
    World::over(world.services.clone(), options, Receiver::start().await.unwrap()).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_organisation_with_more_hanging_lanes_than_places_delays_no_other(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let other = neighbour(&world, &options).await;
    let lanes = Lanes::start(&world, 64);
    world.receiver.answer_all(Answer::Hang);
    let (hanging, healthy) = (hooks(&world, "/", 150).await, hooks(&other, "/", 4).await);
    // the first one is served from the first second on
    let waited = tokio::join!(hang(&world, &lanes, &hanging, 50), tell(&other, &healthy)).1;
    assert!(waited < SOON * 2, "with the first that hang: {waited:?}");
    let used = lanes.places.in_use();
    assert!(used.slow < 64 && used.waiting > 50, "{used:?}");
    for _ in 0..5 {
        let waited = tell(&other, &healthy).await;
        assert!(waited < SOON, "{waited:?}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn lanes_that_hang_leave_places_to_the_healthy_ones_of_their_own_organisation(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let lanes = Lanes::start(&world, 64);
    let (mut hung, healthy) = (Vec::new(), hooks(&world, "/healthy", 6).await);
    world.receiver.answer("/hung", Answer::Hang);
    hung.extend(hooks(&world, "/hung", 50).await);
    hang(&world, &lanes, &hung, 50).await;
    for _ in 0..5 {
        let waited = tell(&world, &healthy).await;
        assert!(waited < SOON, "{waited:?}");
    }
    // a lane that was slow for a moment does not affect the others, nor does one that has recovered
    lanes.until("the healthy ones leave", |used| used.quick == 0 && used.slow == 50).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn lanes_that_failed_last_wait_for_their_share_and_an_idle_share_is_lent(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let other = neighbour(&world, &options).await;
    let lanes = Lanes::start(&world, 16);
    world.receiver.answer("/failing", Answer::Status(500));
    let failing = hooks(&world, "/failing", 40).await;
    tell(&world, &failing).await;
    // failed lanes send probes, which now hang
    world.receiver.answer("/failing", Answer::Hang);
    lanes.until("all have ended", |used| used.quick + used.slow + used.waiting == 0).await;
    for hook in &failing {
        world.make_due(hook).await;
    }
    put(&world, &failing).await;
    lanes.until("their share is full", |used| used.slow >= 10 && used.waiting >= 26).await;
    let used = lanes.places.in_use();
    assert!(used.slow <= 12, "three quarters of the places: {used:?}");
    let healthy = hooks(&other, "/", 3).await;
    let waited = tell(&other, &healthy).await;
    assert!(waited < SOON, "{waited:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_backlog_of_a_single_organisation_is_sent_by_nearly_all_places(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let lanes = Lanes::start(&world, 9);
    let gate = world.receiver.hold("/", Answer::Status(204));
    let held = hooks(&world, "/", 30).await;
    join_all(held.iter().map(|hook| world.events(hook, 1))).await;
    put(&world, &held).await;
    world.receiver.wait_for(9, PATIENCE).await.unwrap();
    assert_eq!(lanes.places.in_use().waiting, 21);
    gate.open();
    world.receiver.wait_for(30, PATIENCE).await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn due_lanes_are_found_by_organisation_in_turn(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let other = neighbour(&world, &options).await;
    for hook in hooks(&world, "/", 5).await {
        world.events(&hook, 1).await;
    }
    let hook = &hooks(&other, "/", 1).await[0];
    other.events(hook, 1).await;
    let found = longshore_domain::webhook::lane::due(&world.services.db, None, 100).await.unwrap().lanes;
    assert_eq!(found.len(), 6);
    assert!(found[..2].contains(&hook.id), "the other's is among the first of each: {found:?}");
    assert!(!found.contains(&WebhookId::nil()));
}
