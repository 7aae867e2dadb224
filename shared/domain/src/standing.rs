//! The state of the queues: their entries in Redis, their work in Postgres, and the settings of the operator. Redis may be
//! empty, full or unavailable while work waits, so due work is read from Postgres.
//!
//! [`queue`] pauses, resumes and tunes them; [`backlog`] has the figures for metrics and charts, [`orders`] those of orders.

pub mod backlog;
mod orders;
pub mod queue;
mod verdict;
mod words;

pub use verdict::Verdict;

use std::time::Duration;

use serde_json::{Value, json};

use crate::expedition::handover::lane as systems;
use crate::job::dispatch;
use longshore_kernel::answer::moment;
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::control::{self, Wish};

use self::queue::Pause;
use crate::webhook::lane::backlog::{self as lanes, Backlog};
use longshore_kernel::queue::{Queue, QueueStats, RedisHealth};
use longshore_kernel::services::Services;

/// How long Redis may take to return the state of a queue before it counts as unavailable.
const PATIENCE: Duration = Duration::from_secs(2);

/// The state of a queue. Values of Redis are missing while it is unavailable.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The queue, whether it is paused and until when, and what each worker runs at once.
    pub wish: Wish,
    /// Who paused it, when and why, while it is paused.
    pub pause: Option<Pause>,
    /// Whether Redis, which carries it, can be asked.
    pub reachable: bool,
    /// Whether Redis takes what becomes due.
    pub writable: bool,
    /// Entries on it: waiting and running.
    pub depth: Option<u64>,
    /// Those of them that a worker holds.
    pub in_flight: Option<u64>,
    /// How long its oldest entry has been there, in seconds; nothing where there is none.
    pub oldest_seconds: Option<f64>,
    /// Workers that read it, paused ones included.
    pub workers: Option<u64>,
    /// What Postgres has recorded and not finished: chunks, lanes that are being delivered.
    pub recorded: Recorded,
}

/// What Postgres knows of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recorded {
    /// Not finished; nothing where only the queue knows.
    pub open: Option<i64>,
    /// Of these, leased by a worker at this moment.
    pub running: i64,
    /// What a worker could begin now, up to a bound; nothing where only the queue knows.
    pub due: Option<i64>,
    /// For how long the oldest of that has been due, in seconds; nothing where nothing is.
    pub oldest_seconds: Option<f64>,
}

/// The state of all queues and of Redis.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Redis.
    pub redis: RedisHealth,
    /// The queues, in their order.
    pub queues: Vec<Shown>,
    /// The deliveries that are due.
    pub deliveries: Backlog,
}

impl Shown {
    fn new(wish: Wish, redis: &RedisHealth, stats: Option<QueueStats>, recorded: Recorded) -> Self {
        Self {
            wish,
            pause: None,
            reachable: stats.is_some(),
            writable: redis.is_up(),
            depth: stats.map(|s| s.depth),
            in_flight: stats.map(|s| s.pending),
            oldest_seconds: stats.and_then(|s| s.oldest).map(|age| age.as_secs_f64()),
            workers: stats.map(|s| s.consumers),
            recorded,
        }
    }

    /// As `GET /api/queue` shows it.
    fn fields(&self) -> Value {
        json!({
            "name": self.wish.queue.name(),
            "state": self.verdict().as_str(),
            "paused": self.wish.paused,
            "resumesAt": self.wish.resumes_at.map(moment),
            "concurrency": self.wish.concurrency,
            "reachable": self.reachable,
            "depth": self.depth,
            "inFlight": self.in_flight,
            "oldestSeconds": self.oldest_seconds,
            "workers": self.workers,
            "recorded": {
                "open": self.recorded.open,
                "running": self.recorded.running,
                "due": self.recorded.due,
                "oldestDueSeconds": self.recorded.oldest_seconds,
            },
            "pause": self.pause.as_ref().map(|pause| {
                json!({"by": pause.by, "at": moment(pause.at), "reason": pause.reason})
            }),
        })
    }
}

/// The state of all queues (`GET /api/queue`). Redis being away is an answer, not a failure.
pub async fn list(services: &Services) -> Result<String, Problem> {
    let standing = read(services).await?;
    let mut fields = standing.redis.fields();
    fields.insert("queues".to_owned(), standing.queues.iter().map(Shown::fields).collect());
    Ok(Value::Object(fields).to_string())
}

/// The state of everything.
pub async fn read(services: &Services) -> Result<Standing, Problem> {
    let asked = async { Ok(futures::future::join_all(Queue::ALL.map(|queue| stats(services, queue))).await) };
    let probed = async { Ok(services.queues.probe(PATIENCE).await) };
    let (wishes, recorded, systems, due, deliveries, stats, redis, pauses) = tokio::try_join!(
        control::wishes(&services.db.main),
        recorded(services),
        Box::pin(systems::backlog(&services.db)),
        dispatch::waiting(&services.db.main),
        lanes::read(&services.db),
        asked,
        probed,
        queue::pauses(services),
    )?;
    let queues = wishes.into_iter().zip(stats).map(|(wish, stats)| {
        let known = due.iter().find(|due| due.queue == wish.queue);
        let (due, oldest_seconds) = known.map_or((None, None), |due| (Some(due.due), due.oldest_seconds));
        let recorded = match wish.queue {
            Queue::Chunk => {
                let (open, running) = (Some(recorded.open_chunks), recorded.running_chunks);
                Recorded { open, running, due, oldest_seconds }
            }
            Queue::Partner => {
                Recorded { open: None, running: recorded.running_partners, due, oldest_seconds }
            }
            // deliveries whose destination fails, or asked for a pause, wait for it, not for a worker
            Queue::Lane => Recorded {
                open: Some(deliveries.lanes),
                running: recorded.running_lanes,
                due: Some(deliveries.free_lanes),
                oldest_seconds: (deliveries.free_lanes > 0).then_some(deliveries.oldest_seconds),
            },
            // of warehouses with orders that wait for a call or its answer
            Queue::Handover => Recorded {
                open: Some(systems.open),
                running: systems.running,
                due: Some(systems.due),
                oldest_seconds: None,
            },
            Queue::Upkeep => Recorded::default(),
        };
        let pause = pauses.iter().find(|pause| wish.paused && pause.queue == wish.queue.name()).cloned();
        Shown { pause, ..Shown::new(wish, &redis, stats, recorded) }
    });
    Ok(Standing { queues: queues.collect(), redis, deliveries })
}

struct Rows {
    open_chunks: i64,
    running_chunks: i64,
    running_partners: i64,
    running_lanes: i64,
}

async fn recorded(services: &Services) -> Result<Rows, Problem> {
    let found = sqlx::query_as!(
        Rows,
        r#"SELECT (SELECT coalesce(sum(chunks_open), 0) FROM job WHERE state IN ('queued', 'running', 'retrying'))
                      AS "open_chunks!",
                  (SELECT count(*) FROM job_chunk WHERE state = 'running' AND NOT calls_partner) AS "running_chunks!",
                  (SELECT count(*) FROM job_chunk WHERE state = 'running' AND calls_partner) AS "running_partners!",
                  (SELECT count(*) FROM webhook_lane WHERE leased_until > now()) AS "running_lanes!""#,
    )
    .fetch_one(&services.db.main)
    .await?;
    Ok(found)
}

async fn stats(services: &Services, queue: Queue) -> Option<QueueStats> {
    match tokio::time::timeout(PATIENCE, services.queues.stats(queue)).await {
        Ok(Ok(stats)) => Some(stats),
        Ok(Err(error)) => {
            tracing::warn!(queue.name = %queue, %error, "cannot read the state of the queue");
            None
        }
        Err(_) => None,
    }
}
