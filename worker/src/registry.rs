//! What is worked on: each queue with its handler and its limits, in one list.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use apalis::prelude::{Monitor, ParallelizeExt, WorkerBuilder, WorkerBuilderExt};
use longshore_shared::platform::cause::causes;
use longshore_shared::platform::ids::parse_id;
use longshore_shared::platform::queue::Queue;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::command::WorkSettings;
use crate::context::WorkerContext;
use crate::dispatcher::{self, Controlled, obey};
use crate::jobs::webhook_lane;
use crate::jobs::{chunk, partner_turn, upkeep};
use crate::places::{self, Places};
use crate::queue::{Config, MAX_CONCURRENCY, QueueControl, RedisStream, spawn};
use crate::statistics;

/// How long running work may take to end once the process is asked to stop.
const GRACE: Duration = Duration::from_secs(30);
/// The longest that one chunk may run, with what becomes of it.
const CHUNK_LIMIT: Duration = chunk::LONGEST.saturating_add(chunk::RECORD_WITHIN);
/// The longest that one turn at a partner may wait for its place and run.
const PARTNER_LIMIT: Duration = CHUNK_LIMIT.saturating_add(places::PATIENCE);
/// The longest that one turn of a lane may wait for its place and run: its slice, and the calls that were under way at its end.
const LANE_LIMIT: Duration = Duration::from_mins(2);
/// The longest that one upkeep may run.
const UPKEEP_LIMIT: Duration = Duration::from_mins(10);

/// Works until SIGTERM or SIGINT; then nothing new is begun, what runs may end, and what does not is handed back.
pub async fn run(context: WorkerContext, work: &WorkSettings) -> anyhow::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = context.stop.clone();
    let stopping = async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        stop.cancel();
        Ok(())
    };
    let keeping = tokio::spawn(context.leases.clone().keep_alive());
    let mut controls = Vec::new();
    let mut monitor = Monitor::new().shutdown_timeout(GRACE);
    macro_rules! work_on {
        ($queue:expr, $concurrency:expr, $limit:expr, $handler:path $(, $setting:ident: $value:expr)*) => {{
            let config = Config { concurrency: $concurrency, $($setting: $value,)* ..Config::default() };
            let control = QueueControl::new(config.concurrency);
            controls.push(Controlled::new($queue, control.clone()));
            let following = control.clone();
            let context = context.clone();
            monitor = monitor.register(move |_| {
                let queues = &context.services.queues;
                let stream =
                    RedisStream::<String>::controlled(control.clone(), queues, $queue, config.clone());
                let context = context.clone();
                WorkerBuilder::new($queue.name())
                    .backend(stream)
                    .parallelize(spawn)
                    .concurrency(MAX_CONCURRENCY + config.ahead)
                    .timeout($limit)
                    .catch_panic()
                    .build(move |name: String| infallible($handler(context.clone(), name)))
            });
            following
        }};
    }
    let _ = work_on!(Queue::Chunk, usize::from(work.chunk_concurrency), CHUNK_LIMIT, chunk::run);
    // calls of partners and lanes wait for their places by organisation, not in the order of the stream
    let ahead = places::WAITING;
    let partners = usize::from(work.partner_concurrency);
    let of_partners = work_on!(Queue::Partner, partners, PARTNER_LIMIT, partner_turn::run, ahead: ahead);
    let of_lanes = work_on!(Queue::Lane, usize::from(work.lane_concurrency), LANE_LIMIT, lane, ahead: ahead);
    let placing = [(of_partners, &context.partner_places), (of_lanes, &context.lanes.places)]
        .map(|(control, places)| tokio::spawn(follow(control, places.clone())));
    let _ = work_on!(Queue::Upkeep, 1, UPKEEP_LIMIT, upkeep::run);

    // a queue that was paused before this process began is not read first and paused then
    if let Err(error) = obey(&context.services, &controls).await {
        tracing::warn!(error = %causes(&error), "cannot read what the operator wishes of the queues; the dispatcher asks again");
    }
    let dispatching = tokio::spawn(dispatcher::run(context.clone(), controls.clone()));
    let analysing = tokio::spawn(statistics::keep(context.clone()));
    // Redis begins to count now, so that the first call of a partner waits no longer than it must
    context.partners.baselinker.open().await;
    let activity = context.services.metrics.activity().clone();
    let counting = tokio::spawn(activity.clone().keep(context.services.db.main.of_work()));
    tracing::info!("working");
    monitor.run_with_signal(stopping).await?;
    context.stop.cancel();
    for control in controls {
        control.handle.closed().await;
    }
    context.leases.hand_back().await;
    dispatching.abort();
    analysing.abort();
    keeping.abort();
    counting.abort();
    placing.iter().for_each(JoinHandle::abort);
    // the last seconds, for the charts; without them nothing else is missing
    let _ = activity.write(&context.services.db.main).await;
    tracing::info!("stopped");
    Ok(())
}

/// Has places follow what the operator wishes of their queue.
async fn follow(control: QueueControl, places: Places) {
    let mut wishes = control.wishes();
    loop {
        let wish = *wishes.borrow_and_update();
        places.set(wish.concurrency, wish.paused);
        if wishes.changed().await.is_err() {
            return;
        }
    }
}

/// A turn of the lane of this name. What it could not do stays due, and the dispatcher finds it.
async fn lane(context: WorkerContext, name: String) {
    let Some(webhook) = parse_id(&name) else {
        tracing::warn!(lane = name, "an entry of the queue names no lane");
        return;
    };
    match webhook_lane::run(&context.lanes, webhook).await {
        Ok(_) => {}
        // that Postgres is away is told by the dispatcher, once and not by each lane
        Err(error) if error.is_unavailable() => {
            tracing::debug!(webhook.id = %webhook, error = %causes(&error), "a turn of a lane ended early");
        }
        Err(error) => {
            tracing::warn!(webhook.id = %webhook, error = %causes(&error), "a turn of a lane ended early");
        }
    }
}

/// A handler records its own failures in Postgres: to the queue, every entry that was looked at is done.
async fn infallible(work: impl Future<Output = ()>) -> Result<(), Infallible> {
    work.await;
    Ok(())
}
