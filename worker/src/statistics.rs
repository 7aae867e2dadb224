//! Has Postgres look again at tables that have outgrown what it knows of them, so that no plan for a small table outlives it
//! by more than a second.
//!
//! It runs in every worker, beside the dispatcher and not in it: to analyse a table that has just been filled takes a moment.

use std::time::Duration;

use longshore_shared::platform::cause::causes;
use longshore_shared::platform::statistics;
use tokio::time::MissedTickBehavior;

use crate::context::WorkerContext;

/// How often it asks: so much of a first catalogue is written by plans for an empty table.
const EVERY: Duration = Duration::from_secs(1);

/// Asks until the process stops.
pub async fn keep(context: WorkerContext) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = context.stop.cancelled() => return,
        }
        match statistics::refresh(&context.services.db.main).await {
            Ok(0) => {}
            Ok(tables) => tracing::debug!(tables, "analysed tables that have outgrown their statistics"),
            // that Postgres is away is told by the dispatcher; what it refuses now (a lock, a full disk) it may do in a second
            Err(error) => tracing::debug!(error = %causes(&error), "cannot analyse what has grown"),
        }
    }
}
