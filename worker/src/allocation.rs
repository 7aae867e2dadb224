//! Looks after marked stocks: takes back what is no longer covered and serves the orders that wait, place by place, within a
//! second of the commit that gave cause (`longshore_shared::expedition::allocation`).

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream;
use longshore_shared::expedition::allocation::{self, Place};
use longshore_shared::kernel::cause::causes;

use crate::context::WorkerContext;

/// How often marks are looked for.
const EVERY: Duration = Duration::from_millis(250);

/// How long to wait after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// Places that a process works in at once.
const AT_ONCE: usize = 2;

/// Works until the process stops.
pub async fn keep(context: WorkerContext) {
    while !context.stop.is_cancelled() {
        let pause = match round(&context).await {
            // places take turns: each has had one transaction, and some have more to do
            Ok(true) => continue,
            Ok(false) => EVERY,
            Err(error) => {
                tracing::warn!(error = %causes(&error), "cannot allocate; the marks of the stocks stay");
                AFTER_FAILURE
            }
        };
        tokio::select! {
            () = context.stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// One transaction in each place that has marked stocks; whether any has more to do.
async fn round(context: &WorkerContext) -> Result<bool, longshore_shared::kernel::problem::Problem> {
    let places = allocation::places(&context.services).await?;
    let work = |place: Place| async move {
        let begun = Instant::now();
        let allocated = allocation::allocate(&context.services, place).await?;
        if allocated.has_done_something() {
            context.services.metrics.allocated(begun.elapsed());
        }
        Ok(allocated)
    };
    let mut done = stream::iter(places).map(work).buffer_unordered(AT_ONCE);
    let (mut is_more, mut failed) = (false, None);
    while let Some(allocated) = done.next().await {
        match allocated {
            Ok(allocated) => is_more |= allocated.is_more && allocated.has_done_something(),
            // one place holds up no other
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(is_more), Err)
}
