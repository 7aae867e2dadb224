//! Makes Postgres analyse tables that have outgrown their statistics, so that a plan for a small table is
//! used for at most a second longer.
//!
//! It runs in every worker, beside the dispatcher rather than in it, because analysing a table that has just
//! been filled takes a moment.

use std::time::Duration;

use longshore_kernel::cause::causes;
use longshore_kernel::statistics;
use tokio::time::MissedTickBehavior;

use crate::context::WorkerContext;

/// How often it checks: for so long a first catalogue is written with plans for an empty table.
const EVERY: Duration = Duration::from_secs(1);

/// Checks until the process stops.
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
            Ok(tables) => tracing::debug!(tables, "analysed tables with outdated statistics"),
            // the dispatcher reports that Postgres is away; a refusal (a lock, a full disk) may succeed a
            // second later
            Err(error) => tracing::debug!(error = %causes(&error), "cannot analyse tables"),
        }
    }
}
