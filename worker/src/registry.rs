//! All queues, each with its handler and its limits.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apalis::prelude::{Monitor, ParallelizeExt, WorkerBuilder, WorkerBuilderExt};
use clap::Args;
use futures::future::{BoxFuture, FutureExt as _, select_all};
use longshore_domain::expedition::silence;
use longshore_kernel::cause::causes;
use longshore_kernel::ids::{WebhookId, WmsId};
use longshore_kernel::queue::{Queue, control, process_of};
use longshore_serve::manager;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{AbortHandle, JoinHandle};

use crate::allocation;
use crate::beat;
use crate::context::WorkerContext;
use crate::dispatcher::{self, Controlled, obey};
use crate::handover;
use crate::jobs::{chunk, partner_turn, upkeep};
use crate::lanes;
use crate::places::{self, Places};
use crate::pulse;
use crate::queue::{Config, MAX_CONCURRENCY, QueueControl, RedisStream, spawn, unique_name};
use crate::statistics;

/// How long running work may take to end when the process must stop.
const GRACE: Duration = Duration::from_secs(30);
/// The longest time that one chunk may run, including the recording of its outcome.
const CHUNK_LIMIT: Duration = chunk::LONGEST.saturating_add(chunk::RECORD_WITHIN);
/// The longest time that one turn at a partner may wait for its place and run.
const PARTNER_LIMIT: Duration = CHUNK_LIMIT.saturating_add(places::PATIENCE);
/// The longest time that one turn of a lane may wait for its place and run: its slice, and the calls under
/// way at its end.
const LANE_LIMIT: Duration = Duration::from_mins(2);
/// The longest time that one upkeep may run.
const UPKEEP_LIMIT: Duration = Duration::from_mins(10);

/// What the process does, and how much of it at once.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Work")]
pub struct WorkSettings {
    /// Chunks of jobs that are executed at once.
    #[arg(long, env = "LONGSHORE_CHUNK_CONCURRENCY", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub chunk_concurrency: u16,
    /// Partners that are called at once, for pulls and send-outs.
    #[arg(long, env = "LONGSHORE_PARTNER_CONCURRENCY", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub partner_concurrency: u16,
    /// Webhooks that are delivered to at once. Slow ones leave a quarter of the slots to the others (of two or three slots,
    /// one), and no organisation uses all. With 1, one that hangs holds up all. A used slot costs about 45 kB.
    #[arg(long, env = "LONGSHORE_LANE_CONCURRENCY", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..=i64::from(control::MAX_CONCURRENCY)))]
    pub lane_concurrency: u16,
    /// Days without news after which an order on its way is `probably_delivered`.
    #[arg(long, env = "LONGSHORE_PROBABLY_DELIVERED_DAYS", default_value_t = silence::DAYS, value_parser = clap::value_parser!(u16).range(1..=3_650))]
    pub probably_delivered_days: u16,
    /// Systems of warehouses that are called at once. One that hangs uses a slot.
    #[arg(long, env = "LONGSHORE_HANDOVER_CONCURRENCY", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub handover_concurrency: u16,
}

/// Works until SIGTERM or SIGINT. Then nothing new begins, running work may end, and what does not is given
/// back. A process whose dispatcher, leases or outcomes have stopped does the same and fails, so that it is started anew.
pub async fn run(context: WorkerContext, work: &WorkSettings) -> anyhow::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
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
    // calls of partners and lanes wait for places by organisation, not in the order of the stream
    let ahead = places::WAITING;
    let partners = usize::from(work.partner_concurrency);
    let of_partners = work_on!(Queue::Partner, partners, PARTNER_LIMIT, partner_turn::run, ahead: ahead);
    let of_lanes = work_on!(Queue::Lane, usize::from(work.lane_concurrency), LANE_LIMIT, lane, ahead: ahead);
    let systems = usize::from(work.handover_concurrency);
    let of_systems = work_on!(Queue::Handover, systems, LANE_LIMIT, hand_over, ahead: ahead);
    let placing = [
        (of_partners, &context.partner_places),
        (of_lanes, &context.lanes.places),
        (of_systems, &context.handover.places),
    ]
    .map(|(control, places)| tokio::spawn(follow(control, places.clone())));
    let _ = work_on!(Queue::Upkeep, 1, UPKEEP_LIMIT, upkeep::run);

    // before anything is called, so that nothing is where Postgres was set back while no worker ran
    pulse::raise(&context).await;
    // so that a queue paused before the start is not read before the first look of the dispatcher
    if let Err(error) = obey(&context.services, &controls).await {
        tracing::warn!(error = %causes(&error), "cannot read the operator's settings of the queues; the dispatcher will read them again");
    }
    let warming = tokio::spawn(lanes::keep_warm(context.lanes.clone()));
    let dispatching = tokio::spawn(dispatcher::run(context.clone(), controls.clone()));
    let allocating = tokio::spawn(allocation::keep(context.clone()));
    let analysing = tokio::spawn(statistics::keep(context.clone()));
    let beating = tokio::spawn(beat::keep(context.clone()));
    let pulsing = tokio::spawn(pulse::keep(context.clone()));
    // Redis starts to count now, so that the first call of a partner waits no longer than necessary
    context.partners.baselinker.open().await;
    let activity = context.services.metrics.activity().clone();
    activity.of_worker(process_of(&unique_name()));
    let counting = tokio::spawn(activity.clone().keep(context.services.db.main.of_work()));
    let (stop, writer) = (context.stop.clone(), context.lanes.writer.clone());
    let running = [&keeping, &dispatching].map(JoinHandle::abort_handle);
    let needed: [(&str, BoxFuture<'static, ()>); 3] = [
        ("dispatcher", Box::pin(async { drop(dispatching.await) })),
        ("renewal of leases", Box::pin(async { drop(keeping.await) })),
        ("writer of outcomes", Box::pin(async move { writer.ended().await })),
    ];
    let broken = Arc::new(OnceLock::new());
    let told = Arc::clone(&broken);
    let stopping = async move {
        let signalled = async {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        };
        if let Some(task) = until_stopped(signalled, needed).await {
            tracing::error!(task, "a task that the worker needs has ended; the worker stops");
            let _ = told.set(task);
        }
        manager::stopping();
        stop.cancel();
        Ok(())
    };
    tracing::info!("working");
    manager::ready();
    monitor.run_with_signal(stopping).await?;
    context.stop.cancel();
    // first, so that others go on with what is left
    context.leases.hand_back().await;
    for control in controls {
        control.handle.closed().await;
    }
    // it ends by itself; leases that it does not give back in time expire
    let _ = tokio::time::timeout(GRACE, warming).await;
    // what it does not finish is undone, and its marks stay
    allocating.abort();
    analysing.abort();
    beating.abort();
    pulsing.abort();
    running.iter().for_each(AbortHandle::abort);
    counting.abort();
    placing.iter().for_each(JoinHandle::abort);
    // the last seconds for the charts, the only thing that is lost if this fails
    let _ = activity.write(&context.services.db.main).await;
    tracing::info!("stopped");
    match broken.get() {
        Some(task) => anyhow::bail!("the {task} has ended by itself"),
        None => Ok(()),
    }
}

/// Waits for a signal, or for the end of a task that works as long as the process; returns the name of that.
async fn until_stopped(
    signalled: impl Future<Output = ()>,
    needed: impl IntoIterator<Item = (&'static str, BoxFuture<'static, ()>)>,
) -> Option<&'static str> {
    let ended = needed.into_iter().map(|(name, task)| task.map(move |()| name));
    tokio::select! {
        () = signalled => None,
        (name, ..) = select_all(ended) => Some(name),
    }
}

/// Applies the operator's wishes for a queue to its places.
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

/// Runs a turn of the named lane. Deliveries that it cannot send stay due, and the dispatcher finds them.
async fn lane(context: WorkerContext, name: String) {
    let Some(webhook) = WebhookId::parse(&name) else {
        tracing::warn!(lane = name, "an entry of the queue names no lane");
        return;
    };
    match lanes::run(&context.lanes, webhook).await {
        Ok(_) => {}
        // if Postgres is away, the dispatcher reports it once instead of every lane
        Err(error) if error.is_unavailable() => {
            tracing::debug!(webhook.id = %webhook, error = %causes(&error), "a turn of a lane ended early");
        }
        Err(error) => {
            tracing::warn!(webhook.id = %webhook, error = %causes(&error), "a turn of a lane ended early");
        }
    }
}

/// Runs a turn of the lane of the named wms. What it does not call stays due, and the dispatcher finds it.
async fn hand_over(context: WorkerContext, name: String) {
    let Some(wms) = WmsId::parse(&name) else {
        tracing::warn!(lane = name, "an entry of the queue names no wms");
        return;
    };
    match handover::run(&context.handover, wms).await {
        Ok(_) => {}
        // if Postgres is away, the dispatcher reports it
        Err(error) if error.is_unavailable() => {
            tracing::debug!(wms.id = %wms, error = %causes(&error), "a turn of a wms ended early");
        }
        Err(error) => tracing::warn!(wms.id = %wms, error = %causes(&error), "a turn of a wms ended early"),
    }
}

/// A handler records its own failures in Postgres: for the queue, every entry it handled is done.
async fn infallible(work: impl Future<Output = ()>) -> Result<(), Infallible> {
    work.await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_needed_task_that_panics_is_noticed_and_a_signal_is_no_failure() {
        let panics = tokio::spawn(async { panic!("made to fail") });
        let needed = |task: BoxFuture<'static, ()>| {
            [("dispatcher", Box::pin(pending()) as BoxFuture<'static, ()>), ("writer", task)]
        };
        let task = Box::pin(async { drop::<Result<(), _>>(panics.await) });
        assert_eq!(until_stopped(pending(), needed(task)).await, Some("writer"));
        assert_eq!(until_stopped(ready(()), needed(Box::pin(pending()))).await, None);
    }
}
