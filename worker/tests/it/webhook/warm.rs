//! Warm lanes: what their holder sends from notices, and what it does not.

mod change;
mod fault;
mod many;
mod notice;

use std::time::{Duration, Instant};

use longshore_kernel::ids::{DeliveryId, WebhookId};
use longshore_kernel::queue::{Hint, Notice, Queue};
use longshore_worker::lanes::{self, LaneContext};
use redis::AsyncTypedCommands as _;
use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use sqlx::{PgConnection, Row as _};
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;

use super::support::{Hook, PATIENCE, World, worker};

/// How often a test looks whether something has come about.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A worker that keeps lanes warm.
struct Holder {
    context: LaneContext,
    keeping: JoinHandle<()>,
    _stop: DropGuard,
}

impl Holder {
    fn start(world: &World) -> Self {
        let context = worker(&world.services);
        let keeping = tokio::spawn(lanes::keep_warm(context.clone()));
        let stop = context.stop.clone().drop_guard();
        Self { context, keeping, _stop: stop }
    }

    /// Stops it, and waits until it has given everything back.
    async fn stop(self) {
        self.context.stop.cancel();
        self.keeping.await.unwrap();
    }

    /// Has it send an event of a webhook, and waits until it is registered as the holder of the lane.
    async fn warm(&self, world: &World, hook: &Hook) {
        let sent = world.receiver.requests();
        world.events(hook, 1).await;
        lanes::run(&self.context, hook.id).await.unwrap();
        world.receiver.wait_for(sent + 1, PATIENCE).await.unwrap();
        until("the lane is warm", async || registration(world, hook).await.is_some()).await;
        // the look after the registration ends before what a test does next is due
        until("nothing is left", async || world.live(hook).await == 0).await;
    }
}

/// A webhook of a world of its own whose lane is warm, and the holder of that.
async fn warm_lane(options: &PgConnectOptions, fields: Value) -> (World, Hook, Holder) {
    let world = World::new(options).await;
    let hook = world.hook("/hook", fields).await;
    let holder = Holder::start(&world);
    holder.warm(&world, &hook).await;
    (world, hook, holder)
}

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The token and the name under which a lane is registered.
async fn registration(world: &World, hook: &Hook) -> Option<(i64, String)> {
    let key = world.services.queues.keys(Queue::Lane).holder(&hook.id.to_string());
    let value: Option<String> = world.services.queues.connection().get(key).await.unwrap();
    let value = value?;
    let (token, name) = value.split_once(' ').unwrap();
    Some((token.parse().unwrap(), name.to_owned()))
}

/// Adds an entry to the stream of a holder, as if it had been put while that token was registered.
async fn announce(world: &World, name: &str, webhook: WebhookId, token: i64, notice: &str) {
    let stream = world.services.queues.keys(Queue::Lane).of_holder(name);
    let sealed = Notice::seal(&world.services.vault, webhook, notice).unwrap();
    let mut add = redis::cmd("XADD");
    add.arg(stream).arg("*").arg("d").arg(webhook.to_string()).arg("t").arg(token).arg("c").arg(sealed);
    add.exec_async(&mut world.services.queues.connection()).await.unwrap();
}

/// Hands hints over, as a change does after its commit.
fn hand_over(world: &World, hints: Vec<Hint>) {
    world.services.queues.hand_over_hints(&world.services.vault, hints);
}

/// The notices of the live deliveries of a webhook, oldest first, as the statement of a change writes them.
async fn notices(connection: &mut PgConnection, hook: &Hook) -> Vec<(DeliveryId, String)> {
    let rows = sqlx::query(
        "SELECT d.id, json_build_object('delivery', d.id, 'webhookVersion', w.changed_at, 'event', e.id, 'type', e.type,
                    'entity', e.entity_id, 'at', e.at, 'data', e.data::text, 'requestId', e.request_id,
                    'traceparent', e.traceparent)::text AS notice
         FROM delivery d JOIN event e ON e.id = d.event_id JOIN webhook w ON w.id = d.webhook_id
         WHERE d.webhook_id = $1 ORDER BY d.next_attempt_at, d.id",
    )
    .bind(hook.id)
    .fetch_all(connection)
    .await
    .unwrap();
    rows.into_iter().map(|row| (row.get("id"), row.get("notice"))).collect()
}

/// Makes deliveries due, and their hints.
async fn changes(world: &World, hook: &Hook, count: i32) -> Vec<Hint> {
    let mut transaction = world.pool.begin().await.unwrap();
    world.events_in(&mut transaction, hook, count).await;
    let found = notices(&mut transaction, hook).await;
    transaction.commit().await.unwrap();
    let count = usize::try_from(count).unwrap();
    let new = found.into_iter().rev().take(count);
    new.map(|(_, notice)| Hint::new(hook.id, Some(notice))).collect()
}

async fn token(world: &World, hook: &Hook) -> i64 {
    let token: Value =
        world.value("SELECT to_jsonb(token) FROM webhook_lane WHERE webhook_id = $1", hook).await;
    token.as_i64().unwrap()
}

/// Whether the lease of a lane is live.
async fn is_leased(world: &World, hook: &Hook) -> bool {
    world.value("SELECT to_jsonb(leased_until > now()) FROM webhook_lane WHERE webhook_id = $1", hook).await
        == true
}
