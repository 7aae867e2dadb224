//! Finds in Postgres what is due and puts it on the queues: what Redis lost, what waits for its time, what a dead process
//! held. It runs in every worker; the queue takes each name once, so any number may run.
//!
//! At every look it first reads what the operator wishes of the queues, and has this process obey: a paused queue is
//! neither read nor filled.

use std::time::Duration;

use chrono::{DateTime, Utc};
use longshore_shared::job::dispatch;
use longshore_shared::partner::send_out::changes;
use longshore_shared::platform::cause::causes;
use longshore_shared::platform::problem::Problem;
use longshore_shared::platform::queue::{Queue, control};
use longshore_shared::platform::services::Services;
use longshore_shared::webhook::lane::{self, Way};
use tokio::time::{Instant, MissedTickBehavior};
use uuid::Uuid;

use crate::context::WorkerContext;
use crate::jobs::upkeep;
use crate::queue::QueueControl;

/// How often it looks for what has just become due again, where something is about to: such a delivery is so much late.
const GLANCE_EVERY: Duration = Duration::from_millis(250);
/// How often it looks at everything, in glances: what the queue lost is a second late.
const LOOK_EVERY: u32 = 4;
/// How often the upkeep is due, in looks.
const UPKEEP_EVERY: u32 = 60;
/// Lanes that one look goes over; the next one goes on where it ended.
const LANES: usize = 20_000;
/// After a look over the lanes they are left alone for so many times as long as it took: of ten thousand that wait, a look
/// takes tenths of a second. But never for longer than this, so that what the queue lost comes within five seconds.
const REST: u32 = 9;
const LONGEST_REST: Duration = Duration::from_secs(3);
/// The same in the middle of them, where there are more than one look goes over.
const REST_BETWEEN: u32 = 3;
/// From a look by delivery of this length on, the next ones go webhook by webhook for a while.
const SLOW: Duration = Duration::from_millis(100);
const BY_WEBHOOK: Duration = Duration::from_secs(30);
/// How often the clock is compared with that of Postgres, in looks.
const CLOCK_EVERY: u32 = 10;
/// Deliveries to try again that one glance goes over; the next one goes on where it ended.
const RETRIES: usize = 20_000;
/// Looks that succeed before dispatching is well again: within so many, every part of a look had its turn, the lanes too. One
/// that finds nothing to put on a queue does not ask Redis.
const SETTLED: u32 = 5;
/// How long Redis may take; what it does not take is found at the next look.
const PATIENCE: Duration = Duration::from_secs(1);

/// A queue of this process, and how much of it runs at once unless the operator wishes otherwise.
#[derive(Clone, Debug)]
pub struct Controlled {
    /// Which queue.
    pub queue: Queue,
    /// The handle on it.
    pub handle: QueueControl,
    /// What the process was started with.
    pub concurrency: usize,
}

impl Controlled {
    /// A queue with the concurrency that its handle has now.
    #[must_use]
    pub fn new(queue: Queue, handle: QueueControl) -> Self {
        Self { queue, concurrency: handle.concurrency(), handle }
    }
}

/// Has the queues of this process follow what the operator wishes.
pub async fn obey(services: &Services, queues: &[Controlled]) -> Result<(), Problem> {
    let wishes = control::wishes(&services.db.main).await?;
    if wishes.iter().any(|wish| wish.overdue) {
        match control::end_overdue_pauses(services).await {
            Ok(0) => {}
            Ok(_) => tracing::info!("a pause has ended by itself"),
            // the queue goes on all the same; the next look writes it down
            Err(error) => tracing::warn!(error = %causes(&error), "cannot record that a pause has ended"),
        }
    }
    for wish in wishes {
        for controlled in queues.iter().filter(|controlled| controlled.queue == wish.queue) {
            let before = controlled.handle.is_paused();
            controlled.handle.set_concurrency(wish.concurrency.map_or(controlled.concurrency, usize::from));
            controlled.handle.set_paused(wish.paused);
            if before != wish.paused {
                tracing::info!(queue.name = %wish.queue, queue.paused = wish.paused, "obeying the operator");
            }
        }
    }
    Ok(())
}

/// Looks until the process stops.
pub async fn run(context: WorkerContext, queues: Vec<Controlled>) {
    let mut ticks = tokio::time::interval(GLANCE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut glances: u32 = 0;
    let mut lanes = Lanes::default();
    let mut course = Course::default();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = context.stop.cancelled() => return,
        }
        let is_look = glances.is_multiple_of(LOOK_EVERY);
        let looked = if is_look {
            if glances.is_multiple_of(LOOK_EVERY * CLOCK_EVERY) {
                let services = &context.services;
                // that Postgres is away is told by the look
                let _ = services.metrics.clock().look(&services.db, &services.clock).await;
            }
            look(&context, &queues, glances.is_multiple_of(LOOK_EVERY * UPKEEP_EVERY), &mut lanes).await
        } else if lanes.soon {
            glance(&context, &queues, &mut lanes).await
        } else {
            Ok(())
        };
        glances = glances.wrapping_add(1);
        match looked {
            Ok(()) => {
                if is_look && course.succeeded() {
                    tracing::info!("dispatching again");
                }
            }
            Err(error) => {
                if course.failed() {
                    tracing::warn!(error = %causes(&error), "cannot dispatch, trying again every second");
                }
            }
        }
    }
}

/// How dispatching goes, as far as it was told: once when it fails, since the next thousand looks fail for the same reason,
/// and once when it has worked for some looks in a row.
#[derive(Debug, Default)]
struct Course {
    failing: bool,
    succeeded: u32,
}

impl Course {
    /// A look or a glance failed; answers whether that is to be told.
    fn failed(&mut self) -> bool {
        self.succeeded = 0;
        !std::mem::replace(&mut self.failing, true)
    }

    /// A look succeeded; answers whether that is to be told.
    fn succeeded(&mut self) -> bool {
        self.succeeded = if self.failing { self.succeeded + 1 } else { 0 };
        let is_back = self.succeeded == SETTLED;
        self.failing &= !is_back;
        is_back
    }
}

/// How far the lanes were looked at.
#[derive(Debug, Default)]
struct Lanes {
    /// Where the next look over them goes on.
    resume_after: Option<Uuid>,
    /// They are left alone until then.
    rest_until: Option<Instant>,
    /// Up to when was looked for what is to be tried again.
    retried_until: Option<DateTime<Utc>>,
    /// Something is to be tried again before the next look.
    soon: bool,
    /// Until then they are looked over webhook by webhook.
    by_webhook_until: Option<Instant>,
}

impl Lanes {
    fn way(&self, now: Instant) -> Way {
        if self.by_webhook_until.is_some_and(|until| now < until) { Way::ByWebhook } else { Way::ByDelivery }
    }

    /// A look by delivery that takes long reads what was delivered, too; the other way costs the same however much that is.
    fn took(&mut self, now: Instant, look: Duration) {
        if self.way(now) == Way::ByDelivery && look > SLOW {
            self.by_webhook_until = Some(now + BY_WEBHOOK);
        }
    }
}

fn is_paused(queues: &[Controlled], queue: Queue) -> bool {
    queues.iter().any(|controlled| controlled.queue == queue && controlled.handle.is_paused())
}

async fn put(context: &WorkerContext, queue: Queue, names: Vec<String>) -> Result<(), Problem> {
    if names.is_empty() {
        return Ok(());
    }
    context.services.queues.put(queue, &names, PATIENCE).await.map(|_| ()).map_err(Problem::internal)
}

async fn look(
    context: &WorkerContext,
    queues: &[Controlled],
    upkeep_is_due: bool,
    lanes: &mut Lanes,
) -> Result<(), Problem> {
    let services = &context.services;
    obey(services, queues).await?;
    let used = context.lanes.places.in_use();
    services.metrics.note_places([
        ("all", used.places),
        ("quick", used.quick),
        ("slow", used.slow),
        ("waiting", used.waiting),
    ]);
    if !(is_paused(queues, Queue::Chunk) && is_paused(queues, Queue::Partner)) {
        let (chunks, calls): (Vec<_>, Vec<_>) = dispatch::due(&services.db.main)
            .await?
            .into_iter()
            .partition(|(queue, _)| *queue == Queue::Chunk);
        for (queue, due) in [(Queue::Chunk, chunks), (Queue::Partner, calls)] {
            if !is_paused(queues, queue) {
                put(context, queue, due.into_iter().map(|(_, name)| name).collect()).await?;
            }
        }
    }
    glance(context, queues, lanes).await?;
    let started = Instant::now();
    if !is_paused(queues, Queue::Lane) && lanes.rest_until.is_none_or(|until| started >= until) {
        let scan = lane::due_by(&services.db, lanes.way(started), lanes.resume_after, LANES).await?;
        lanes.resume_after = scan.resume_after;
        let times = if lanes.resume_after.is_none() { REST } else { REST_BETWEEN };
        let ended = Instant::now();
        lanes.took(ended, ended - started);
        lanes.rest_until = Some(ended + ((ended - started) * times).min(LONGEST_REST));
        put(context, Queue::Lane, scan.lanes.iter().map(Uuid::to_string).collect()).await?;
    }
    if upkeep_is_due && !is_paused(queues, Queue::Upkeep) {
        put(context, Queue::Upkeep, upkeep::TASKS.iter().map(|task| (*task).to_owned()).collect()).await?;
    }
    // last: what goes wrong with it holds up nothing else
    if !is_paused(queues, Queue::Partner) {
        changes::dispatch(services).await?;
    }
    Ok(())
}

/// Puts on the queue what has just become due again. What does not arrive there is found by the next look over the lanes.
async fn glance(context: &WorkerContext, queues: &[Controlled], lanes: &mut Lanes) -> Result<(), Problem> {
    if is_paused(queues, Queue::Lane) {
        return Ok(());
    }
    let retries = lane::retries(&context.services.db, lanes.retried_until, RETRIES).await?;
    lanes.retried_until = Some(retries.until);
    lanes.soon = retries.soon;
    put(context, Queue::Lane, retries.lanes.iter().map(Uuid::to_string).collect()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_told_once_and_once_more_when_it_works_again() {
        let mut course = Course::default();
        assert!(!course.succeeded());
        assert!(course.failed());
        // in between, there may be nothing to do for which it would fail
        for _ in 0..3 {
            assert!(!course.failed());
            assert!((1..SETTLED).all(|_| !course.succeeded()));
        }
        assert!(course.succeeded());
        assert!((0..2 * SETTLED).all(|_| !course.succeeded()));
        assert!(course.failed());
    }
}
