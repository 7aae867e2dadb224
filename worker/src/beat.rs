//! Says every few seconds what this worker is at, for the list of workers that operators see.

use longshore_kernel::queue::{BEATS_EVERY, Beat, process_of};
use tokio::time::MissedTickBehavior;

use crate::context::WorkerContext;
use crate::queue::unique_name;

/// Says it until the process stops.
pub async fn keep(context: WorkerContext) {
    let name = unique_name();
    let name = process_of(&name);
    let since = context.services.clock.now();
    let mut ticks = tokio::time::interval(BEATS_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = context.stop.cancelled() => return,
        }
        let beat = Beat::of_this_process(since, context.services.clock.now());
        if let Err(error) = context.services.queues.beat(name, &beat).await {
            // the queues report that Redis is away
            tracing::debug!(%error, "nothing was said of this worker");
        }
    }
}
