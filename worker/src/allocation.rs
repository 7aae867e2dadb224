//! Looks after marked stocks: takes back what is no longer covered and serves the orders that wait, place by place, within a
//! second of the commit that gave cause (`longshore_domain::expedition::allocation`).
//!
//! A [`Line`] decides which place is next. It is filled several times a second, whatever is being worked in, so a place whose
//! transactions take long, or wait for a lock, delays no other organisation.

mod line;

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use longshore_domain::expedition::allocation::{self, Allocated, Due};
use longshore_kernel::cause::causes;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::Problem;
use longshore_kernel::seldom::Seldom;

use self::line::{Ended, Line};
use crate::context::WorkerContext;

/// How often marks are looked for.
const EVERY: Duration = Duration::from_millis(250);

/// How long to wait after a look that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// Places that a process works in at once.
const AT_ONCE: usize = 4;

/// How often the log says of an organisation that it cannot allocate.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// Works until the process stops.
pub async fn keep(context: WorkerContext) {
    let said = Seldom::new(SAID_EVERY);
    let mut line = Line::new(AT_ONCE);
    let mut working = FuturesUnordered::new();
    let mut looking = std::pin::pin!(look(&context, Duration::ZERO));
    while !context.stop.is_cancelled() {
        while let Some((due, patience)) = line.begin_next() {
            working.push(work(&context, due, patience));
        }
        tokio::select! {
            () = context.stop.cancelled() => {}
            found = looking.as_mut() => {
                let pause = match found {
                    Ok(found) => {
                        line.add(found, tokio::time::Instant::now());
                        EVERY
                    }
                    Err(error) => {
                        tracing::warn!(error = %causes(&error), "cannot look for marks of stocks; they stay");
                        AFTER_FAILURE
                    }
                };
                looking.set(look(&context, pause));
            }
            Some((due, allocated)) = working.next() => {
                line.end(due, ended(due, &allocated, &said), tokio::time::Instant::now());
            }
        }
    }
    // what has begun comes to its end
    while working.next().await.is_some() {}
}

/// The places that have marked stocks, after a pause.
async fn look(context: &WorkerContext, pause: Duration) -> Result<Vec<Due>, Problem> {
    tokio::time::sleep(pause).await;
    allocation::places(&context.services).await
}

/// One transaction in a place.
async fn work(context: &WorkerContext, due: Due, patience: Duration) -> (Due, Result<Allocated, Problem>) {
    let begun = Instant::now();
    let allocated = allocation::allocate(&context.services, due.place, patience).await;
    if allocated.as_ref().is_ok_and(Allocated::has_done_something) {
        context.services.metrics.allocated(begun.elapsed());
    }
    (due, allocated)
}

fn ended(due: Due, allocated: &Result<Allocated, Problem>, said: &Seldom<OrganisationId>) -> Ended {
    match allocated {
        Ok(allocated) if allocated.is_more && allocated.has_done_something() => Ended::More,
        // what is still marked is found by the next look
        Ok(_) => Ended::Done,
        Err(error) => {
            if let Some(unsaid) = said.say(due.organisation) {
                tracing::warn!(
                    organisation.id = %due.organisation, warehouse.id = %due.place.warehouse, wms.id = %due.place.wms,
                    allocation.unsaid = unsaid, error = %causes(error),
                    "cannot allocate in a place; the marks of its stocks stay"
                );
            }
            Ended::Failed
        }
    }
}
