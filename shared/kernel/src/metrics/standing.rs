//! The state of queues, lanes, jobs and pools, read when the metrics are requested.
//!
//! The figures of queues and lanes are those of the whole service, from any process; those of the pools are of the process
//! itself. A part that cannot be read keeps its last figures, and `longshore_up` shows that it is unavailable.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use sqlx::PgPool;
use tokio::sync::Mutex;

use crate::database::Database;
use crate::horizon;
use crate::ids::WmsId;
use crate::problem::Problem;
use crate::queue::{Queue, Queues, control};
use crate::set_back;
use crate::skew::Skew;

/// Requests within this time get the same figures, so any number of them costs one look-up.
const FRESH: Duration = Duration::from_secs(5);

/// How long a part may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabel {
    pool: &'static str,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartLabel {
    part: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShareLabel {
    of: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolNameLabel {
    pool: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HealthLabel {
    health: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WmsLabel {
    wms: String,
}

type Seconds = Gauge<f64, AtomicU64>;

/// What waits in Postgres, and the webhooks that are unwell: of rooms above this one.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    /// Jobs that have not ended.
    pub jobs_open: i64,
    /// Age of the oldest of them, in seconds.
    pub jobs_oldest_seconds: f64,
    /// Deliveries that are due.
    pub due: i64,
    /// Those of them that wait for a destination which fails.
    pub held: i64,
    /// Webhooks with a delivery that is due.
    pub lanes: i64,
    /// How long the oldest of those that are not held has been due, in seconds.
    pub oldest_due_seconds: f64,
    /// Webhooks whose destination fails.
    pub failing: i64,
    /// Webhooks that were disabled because their destination failed.
    pub disabled: i64,
    /// Orders that have not ended.
    pub orders: OrdersStanding,
    /// The wms whose orders have waited longest for a call or its answer, and for how long, in seconds.
    pub handover: Vec<(WmsId, f64)>,
}

/// Orders that have not ended, and marks of stocks.
#[derive(Clone, Debug, Default)]
pub struct OrdersStanding {
    /// How many, by status, up to a bound.
    pub counts: Vec<(&'static str, i64)>,
    /// Of each status in which an order waits, for how long the oldest has been in it, in seconds.
    pub oldest_seconds: Vec<(&'static str, f64)>,
    /// For how long the oldest mark of a stock has been there, in seconds.
    pub oldest_mark_seconds: f64,
}

/// The gauges.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    up: Family<PartLabel, Gauge>,
    depth: Family<QueueLabel, Gauge>,
    in_flight: Family<QueueLabel, Gauge>,
    oldest: Family<QueueLabel, Seconds>,
    workers: Family<QueueLabel, Gauge>,
    paused: Family<QueueLabel, Gauge>,
    put_failures: Family<QueueLabel, Counter>,
    redis_used: Gauge,
    redis_max: Gauge,
    jobs_open: Gauge,
    jobs_oldest: Seconds,
    webhook_due: Gauge,
    webhook_held: Gauge,
    webhook_oldest: Seconds,
    webhook_lanes: Gauge,
    webhooks: Family<HealthLabel, Gauge>,
    connections: Family<PoolLabel, Gauge>,
    connections_max: Family<PoolNameLabel, Gauge>,
    share_refusals: Family<ShareLabel, Counter>,
    clock_ahead: Seconds,
    oldest_snapshot: Seconds,
    set_back: Gauge,
    orders: Family<StatusLabel, Gauge>,
    orders_oldest: Family<StatusLabel, Seconds>,
    oldest_mark: Seconds,
    handover_oldest: Family<WmsLabel, Seconds>,
    looked: Mutex<Option<Instant>>,
}

impl Gauges {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register(
            "up",
            "1 if Postgres answers this process, or Redis accepts its writes",
            all.up.clone(),
        );
        registry.register("queue_depth", "Entries on a queue, including running ones", all.depth.clone());
        registry.register(
            "queue_in_flight",
            "Entries of a queue that workers are processing",
            all.in_flight.clone(),
        );
        registry.register("queue_oldest_seconds", "Age of the oldest entry of a queue", all.oldest.clone());
        registry.register("queue_workers", "Worker processes that read a queue", all.workers.clone());
        registry.register("queue_paused", "1 if an operator has paused the queue", all.paused.clone());
        registry.register(
            "queue_put_failures",
            "Ids that this process could not queue; the dispatcher queues them later",
            all.put_failures.clone(),
        );
        registry.register(
            "redis_memory_used_bytes",
            "Memory that Redis uses, in bytes",
            all.redis_used.clone(),
        );
        registry.register(
            "redis_memory_max_bytes",
            "Memory at which Redis refuses writes, in bytes; 0 means no limit",
            all.redis_max.clone(),
        );
        registry.register("jobs_open", "Jobs that have not ended", all.jobs_open.clone());
        registry.register("jobs_oldest_seconds", "Age of the oldest open job", all.jobs_oldest.clone());
        registry.register(
            "webhook_due",
            "Deliveries that are due now (at most 10,000 per webhook are counted)",
            all.webhook_due.clone(),
        );
        registry.register(
            "webhook_held",
            "Due deliveries that wait for a destination that fails, or asked for a pause",
            all.webhook_held.clone(),
        );
        registry.register(
            "webhook_oldest_due_seconds",
            "How long the oldest due delivery has been waiting for a worker, without held ones",
            all.webhook_oldest.clone(),
        );
        registry.register("webhook_due_lanes", "Webhooks with a delivery due now", all.webhook_lanes.clone());
        registry.register(
            "webhooks_unwell",
            "Webhooks with a failing destination, and webhooks disabled because of it",
            all.webhooks.clone(),
        );
        registry.register(
            "database_connections",
            "Connections of this process to Postgres",
            all.connections.clone(),
        );
        registry.register(
            "database_connections_max",
            "Maximum connections of this process to Postgres",
            all.connections_max.clone(),
        );
        registry.register(
            "share_refusals",
            "Requests refused for lack of a connection: the organisation used its share, or none was free",
            all.share_refusals.clone(),
        );
        registry.register(
            "database_oldest_snapshot_seconds",
            "How long the oldest session or prepared transaction has kept vacuum from removing dead rows",
            all.oldest_snapshot.clone(),
        );
        registry.register(
            "database_set_back",
            "1 if Postgres was set back, and longshore-api restored has not run since",
            all.set_back.clone(),
        );
        registry.register(
            "orders",
            "Orders that have not ended, by status (at most 10,000 of each are counted)",
            all.orders.clone(),
        );
        registry.register(
            "orders_oldest_seconds",
            "For how long the oldest order has been in a status in which orders wait",
            all.orders_oldest.clone(),
        );
        registry.register(
            "stock_oldest_mark_seconds",
            "How long the oldest marked stock has been waiting for the allocator",
            all.oldest_mark.clone(),
        );
        registry.register(
            "handover_oldest_seconds",
            "For how long the oldest order has waited for a call of its warehouse or the answer, by wms: the twenty that are furthest behind",
            all.handover_oldest.clone(),
        );
        registry.register(
            "clock_ahead_seconds",
            "How far the clock of this process is ahead of that of Postgres; only workers compare them",
            all.clock_ahead.clone(),
        );
        all
    }

    /// Reads the state, unless it was just read.
    pub(super) async fn look(
        &self,
        db: &Database,
        queues: &Queues,
        clock: &Skew,
        backlog: impl Future<Output = Result<Backlog, Problem>>,
    ) {
        let mut looked = self.looked.lock().await;
        if looked.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        let (postgres, redis) = tokio::join!(
            tokio::time::timeout(PATIENCE, self.look_at_postgres(db, backlog)),
            tokio::time::timeout(PATIENCE, self.look_at_redis(queues)),
        );
        let up = |part, is_up: bool| self.up.get_or_create(&PartLabel { part }).set(i64::from(is_up));
        self.clock_ahead.set(clock.seconds());
        up("postgres", matches!(postgres, Ok(true)));
        up("redis", matches!(redis, Ok(true)));
        for (pool, of) in [("main", &db.main), ("lists", &db.lists), ("streams", &db.streams)] {
            self.look_at_pool(pool, of);
            let refused = self.share_refusals.get_or_create(&ShareLabel { of: pool });
            refused.inner().store(of.places().refused(), Ordering::Relaxed);
        }
        self.look_at_pool("leases", &db.leases);
        *looked = Some(Instant::now());
    }

    fn look_at_pool(&self, pool: &'static str, of: &PgPool) {
        let idle = count(of.num_idle());
        let open = i64::from(of.size());
        self.connections.get_or_create(&PoolLabel { pool, state: "idle" }).set(idle);
        self.connections.get_or_create(&PoolLabel { pool, state: "in_use" }).set((open - idle).max(0));
        let max = i64::from(of.options().get_max_connections());
        self.connections_max.get_or_create(&PoolNameLabel { pool }).set(max);
    }

    async fn look_at_postgres(
        &self,
        db: &Database,
        backlog: impl Future<Output = Result<Backlog, Problem>>,
    ) -> bool {
        let (Ok(backlog), Ok(wishes), Ok(horizon), Ok(set_back)) = tokio::join!(
            backlog,
            control::wishes(&db.lists),
            horizon::look(&db.lists),
            set_back::pending(&db.lists),
        ) else {
            return false;
        };
        self.set_back.set(i64::from(set_back.is_some()));
        self.oldest_snapshot.set(horizon.oldest_seconds());
        self.jobs_open.set(backlog.jobs_open);
        self.jobs_oldest.set(backlog.jobs_oldest_seconds);
        self.webhook_due.set(backlog.due);
        self.webhook_held.set(backlog.held);
        self.webhook_lanes.set(backlog.lanes);
        self.webhook_oldest.set(backlog.oldest_due_seconds);
        for (health, webhooks) in [("failing", backlog.failing), ("disabled", backlog.disabled)] {
            self.webhooks.get_or_create(&HealthLabel { health }).set(webhooks);
        }
        for (status, orders) in backlog.orders.counts {
            self.orders.get_or_create(&StatusLabel { status }).set(orders);
        }
        for (status, seconds) in backlog.orders.oldest_seconds {
            self.orders_oldest.get_or_create(&StatusLabel { status }).set(seconds);
        }
        self.oldest_mark.set(backlog.orders.oldest_mark_seconds);
        // few, and not for good: a label of each wms there is would have no bound
        self.handover_oldest.clear();
        for (wms, seconds) in backlog.handover {
            self.handover_oldest.get_or_create(&WmsLabel { wms: wms.to_string() }).set(seconds);
        }
        for wish in wishes {
            let label = QueueLabel { queue: wish.queue.name() };
            self.paused.get_or_create(&label).set(i64::from(wish.paused));
        }
        true
    }

    async fn look_at_redis(&self, queues: &Queues) -> bool {
        for queue in Queue::ALL {
            let failures = self.put_failures.get_or_create(&QueueLabel { queue: queue.name() });
            failures.inner().store(queues.failed(queue), Ordering::Relaxed);
        }
        let redis = queues.probe(PATIENCE).await;
        if let Some(memory) = redis.memory {
            self.redis_used.set(count(memory.used));
            self.redis_max.set(count(memory.max.unwrap_or(0)));
        }
        if !redis.is_reachable() {
            return false;
        }
        // a Redis that refuses writes still reports its entries
        for queue in Queue::ALL {
            let Ok(stats) = queues.stats(queue).await else { return false };
            let label = QueueLabel { queue: queue.name() };
            self.depth.get_or_create(&label).set(count(stats.depth));
            self.in_flight.get_or_create(&label).set(count(stats.pending));
            self.workers.get_or_create(&label).set(count(stats.consumers));
            self.oldest.get_or_create(&label).set(stats.oldest.unwrap_or_default().as_secs_f64());
        }
        redis.is_up()
    }
}

fn count(n: impl TryInto<i64>) -> i64 {
    n.try_into().unwrap_or(i64::MAX)
}
