//! Raises the pulse of the database each second, by which every process sees that Postgres was set back ([`longshore_kernel::set_back`]).

use std::time::Duration;

use longshore_kernel::cause::causes;
use longshore_kernel::{pulse, set_back};
use tokio::time::MissedTickBehavior;

use crate::context::WorkerContext;

/// How long it may take; a commit that waits longer (for its standby) ends without this worker.
const PATIENCE: Duration = Duration::from_secs(3);

/// Raises it until the process stops.
pub async fn keep(context: WorkerContext) {
    let mut ticks = tokio::time::interval(pulse::EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = context.stop.cancelled() => return,
        }
        raise(&context).await;
    }
}

/// Raises it once, unless another worker just has, and compares it with what is remembered.
pub async fn raise(context: &WorkerContext) {
    let services = &context.services;
    // the dispatcher reports that Postgres is away
    match tokio::time::timeout(PATIENCE, set_back::watch(&services.db, &services.queues)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(error = %causes(&error), "the pulse of the database was not raised");
        }
        Err(_) => tracing::debug!("the pulse of the database was not raised in time"),
    }
}
