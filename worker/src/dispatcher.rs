//! Finds due work in Postgres and puts it on the queues: entries that Redis lost, work whose time has come,
//! and work that a dead process held. It runs in every worker; a queue takes each name once, so any number
//! may run.
//!
//! Each look first reads what the operator wants of the queues and applies it to this process: a paused queue
//! is neither read nor filled. Tests, of connections and of webhooks, obey no pause: they show whether
//! a queue may be resumed. A part of a look that fails keeps no other from being queued.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use longshore_domain::expedition::handover::{fill, lane as wms_lane, wake};
use longshore_domain::job::{connection, dispatch};
use longshore_domain::partner::send_out::changes;
use longshore_domain::webhook::delivery::due_tests;
use longshore_domain::webhook::lane::{self, Way};
use longshore_kernel::cause::causes;
use longshore_kernel::ids::{WebhookId, WmsId};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::{Queue, control};
use longshore_kernel::services::Services;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::context::WorkerContext;
use crate::jobs::{chunk, upkeep};
use crate::lanes;
use crate::queue::QueueControl;

/// How often it looks for retries that have just become due, if some are about to; such a delivery is at most
/// this late.
const GLANCE_EVERY: Duration = Duration::from_millis(250);
/// Glances between two looks at everything: what the queue lost is at most a second late.
const LOOK_EVERY: u32 = 4;
/// How often upkeep is due, in looks.
const UPKEEP_EVERY: u32 = 60;
/// Lanes that one look covers; the next look continues where it ended.
const LANES: usize = 20_000;
/// After a look over the lanes, they rest for this many times as long as it took: with ten thousand waiting,
/// a look takes tenths of a second. The rest is bounded, so that what the queue lost is found within five
/// seconds.
const REST: u32 = 9;
const LONGEST_REST: Duration = Duration::from_secs(3);
/// The same between the parts of one pass, if there are more lanes than one look covers.
const REST_BETWEEN: u32 = 3;
/// If a look by delivery takes this long, the next ones go by webhook for a while.
const SLOW: Duration = Duration::from_millis(100);
const BY_WEBHOOK: Duration = Duration::from_secs(30);
/// How often the clock is compared with that of Postgres, in looks.
const CLOCK_EVERY: u32 = 10;
/// Retries that one glance covers; the next glance continues where it ended.
const RETRIES: usize = 20_000;
/// Tests of connections, and tests of webhooks, that run at once while their queue is paused.
const TESTS: usize = 8;
/// Successful looks before dispatching counts as recovered. Within this many, every part of a look has run
/// once, including the lanes. A look that finds nothing to queue does not call Redis.
const SETTLED: u32 = 5;
/// How long a call to Redis may take; the next look finds what was not queued.
const PATIENCE: Duration = Duration::from_secs(1);

/// A queue of this process, and its default concurrency.
#[derive(Clone, Debug)]
pub struct Controlled {
    /// Which queue.
    pub queue: Queue,
    /// The handle that controls it.
    pub handle: QueueControl,
    /// The concurrency the process was started with.
    pub concurrency: usize,
}

impl Controlled {
    /// A queue with the current concurrency of its handle.
    #[must_use]
    pub fn new(queue: Queue, handle: QueueControl) -> Self {
        Self { queue, concurrency: handle.concurrency(), handle }
    }
}

/// Applies what the operator wants to the queues of this process.
pub async fn obey(services: &Services, queues: &[Controlled]) -> Result<(), Problem> {
    let wishes = control::wishes(&services.db.main).await?;
    if wishes.iter().any(|wish| wish.overdue) {
        match longshore_domain::standing::queue::end_overdue_pauses(services).await {
            Ok(0) => {}
            Ok(_) => tracing::info!("a pause has expired"),
            // the queue resumes anyway; the next look records it
            Err(error) => tracing::warn!(error = %causes(&error), "cannot record that a pause has expired"),
        }
    }
    for wish in wishes {
        for controlled in queues.iter().filter(|controlled| controlled.queue == wish.queue) {
            let before = controlled.handle.is_paused();
            controlled.handle.set_concurrency(wish.concurrency.map_or(controlled.concurrency, usize::from));
            controlled.handle.set_paused(wish.paused);
            if before != wish.paused {
                tracing::info!(queue.name = %wish.queue, queue.paused = wish.paused, "applying the operator's settings");
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
    let mut jobs = Jobs::default();
    let mut lanes = Lanes::default();
    let mut courses = HashMap::<&str, Course>::new();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = context.stop.cancelled() => break,
        }
        let is_look = glances.is_multiple_of(LOOK_EVERY);
        let looked = if is_look {
            if glances.is_multiple_of(LOOK_EVERY * CLOCK_EVERY) {
                let services = &context.services;
                // if Postgres is away, the look reports it
                let _ = services.metrics.clock().look(&services.db, &services.clock).await;
            }
            let upkeep_is_due = glances.is_multiple_of(LOOK_EVERY * UPKEEP_EVERY);
            look(&context, &queues, upkeep_is_due, &mut jobs, &mut lanes).await
        } else {
            let mut glanced = vec![(HANDOVERS, hand_over(&context, &queues).await)];
            if lanes.soon {
                glanced.push((DUE_AGAIN, glance(&context, &queues, &mut lanes).await));
            }
            glanced
        };
        glances = glances.wrapping_add(1);
        for (part, result) in looked {
            let course = courses.entry(part).or_default();
            match result {
                Ok(()) => {
                    if is_look && course.succeeded() {
                        tracing::info!(part, "dispatching again");
                    }
                }
                Err(error) => {
                    if course.failed() {
                        tracing::warn!(part, error = %causes(&error), "cannot dispatch; trying again every second");
                    }
                }
            }
        }
    }
    // they see the stop, and are tried again elsewhere
    while jobs.tests.join_next().await.is_some() {}
    while lanes.tests.join_next().await.is_some() {}
}

/// The progress of the looks for jobs.
#[derive(Debug, Default)]
struct Jobs {
    looks: dispatch::Looks,
    /// Tests of connections that run here, while their queue is paused.
    tests: JoinSet<()>,
}

/// What became of the parts of a look.
type Looked = Vec<(&'static str, Result<(), Problem>)>;

/// The parts, as the log names them.
const SETTINGS: &str = "settings of queues";
const JOBS: &str = "jobs";
const DUE_AGAIN: &str = "retries of deliveries";
const HANDOVERS: &str = "handovers";
const SWITCHES: &str = "orders of switched wms";
const DELIVERIES: &str = "deliveries";
const TESTS_OF_WEBHOOKS: &str = "tests of webhooks";
const UPKEEP: &str = "upkeep";
const STOCKS: &str = "stocks to send";

/// Whether a part of dispatching works, as far as it was logged: once when it fails, since the next thousand looks fail
/// for the same reason, and once when several looks in a row have succeeded.
#[derive(Debug, Default)]
struct Course {
    failing: bool,
    succeeded: u32,
}

impl Course {
    /// Notes that a look or a glance failed, and returns whether to log it.
    fn failed(&mut self) -> bool {
        self.succeeded = 0;
        !std::mem::replace(&mut self.failing, true)
    }

    /// Notes that a look succeeded, and returns whether to log it.
    fn succeeded(&mut self) -> bool {
        self.succeeded = if self.failing { self.succeeded + 1 } else { 0 };
        let is_back = self.succeeded == SETTLED;
        self.failing &= !is_back;
        is_back
    }
}

/// The progress of the looks over the lanes.
#[derive(Debug, Default)]
struct Lanes {
    /// Where the next look continues.
    resume_after: Option<WebhookId>,
    /// When the next look may start.
    rest_until: Option<Instant>,
    /// The time up to which retries were found.
    retried_until: Option<DateTime<Utc>>,
    /// Whether a retry becomes due before the next look.
    soon: bool,
    /// Until when looks go webhook by webhook.
    by_webhook_until: Option<Instant>,
    /// Tests of webhooks that are sent here, while the queue is paused.
    tests: JoinSet<()>,
}

impl Lanes {
    fn way(&self, now: Instant) -> Way {
        if self.by_webhook_until.is_some_and(|until| now < until) { Way::ByWebhook } else { Way::ByDelivery }
    }

    /// A slow look by delivery also reads what was delivered; a look by webhook costs the same however much
    /// that is.
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
    jobs: &mut Jobs,
    lanes: &mut Lanes,
) -> Looked {
    let services = &context.services;
    let obeyed = obey(services, queues).await;
    if obeyed.as_ref().is_err_and(Problem::is_unavailable) {
        // Postgres is away, and each other part would wait for it in vain
        return vec![(SETTINGS, obeyed)];
    }
    let used = context.lanes.places.in_use();
    services.metrics.note_places([
        ("all", used.places),
        ("quick", used.quick),
        ("slow", used.slow),
        ("waiting", used.waiting),
    ]);
    let mut looked = vec![(SETTINGS, obeyed)];
    if upkeep_is_due {
        looked.push((UPKEEP, keep_up(context, queues).await));
    }
    looked.extend([
        (JOBS, chunks(context, queues, jobs).await),
        (DUE_AGAIN, glance(context, queues, lanes).await),
        (SWITCHES, switched(context, queues).await),
        (HANDOVERS, hand_over(context, queues).await),
        (TESTS_OF_WEBHOOKS, test_webhooks(context, queues, &mut lanes.tests).await),
        (DELIVERIES, scan(context, queues, lanes).await),
        (STOCKS, send_out(context, queues).await),
    ]);
    looked
}

/// Queues upkeep.
async fn keep_up(context: &WorkerContext, queues: &[Controlled]) -> Result<(), Problem> {
    if is_paused(queues, Queue::Upkeep) {
        return Ok(());
    }
    put(context, Queue::Upkeep, upkeep::TASKS.iter().map(|task| (*task).to_owned()).collect()).await
}

/// Queues the chunks that are due, and those that call a partner.
async fn chunks(context: &WorkerContext, queues: &[Controlled], jobs: &mut Jobs) -> Result<(), Problem> {
    let mut queued = Ok(());
    if is_paused(queues, Queue::Partner) {
        queued = test_connections(context, &mut jobs.tests).await;
        if is_paused(queues, Queue::Chunk) {
            return queued;
        }
    }
    let due = jobs.looks.due(&context.services.db.main).await?;
    let (chunks, calls): (Vec<_>, Vec<_>) = due.into_iter().partition(|(queue, _)| *queue == Queue::Chunk);
    for (queue, due) in [(Queue::Chunk, chunks), (Queue::Partner, calls)] {
        if !is_paused(queues, queue) {
            let put = put(context, queue, due.into_iter().map(|(_, name)| name).collect()).await;
            queued = queued.and(put);
        }
    }
    queued
}

/// How many tests may begin, after those that have ended.
fn room_for_tests(running: &mut JoinSet<()>) -> usize {
    while running.try_join_next().is_some() {}
    TESTS.saturating_sub(running.len())
}

/// Begins the tests of connections that are due.
async fn test_connections(context: &WorkerContext, running: &mut JoinSet<()>) -> Result<(), Problem> {
    let room = room_for_tests(running);
    if room > 0 {
        for name in connection::due(&context.services.db.main, room).await? {
            running.spawn(chunk::run(context.clone(), name));
        }
    }
    Ok(())
}

/// Begins the tests of webhooks that are due.
async fn test_webhooks(
    context: &WorkerContext,
    queues: &[Controlled],
    running: &mut JoinSet<()>,
) -> Result<(), Problem> {
    let room = room_for_tests(running);
    if room == 0 || !is_paused(queues, Queue::Lane) {
        return Ok(());
    }
    for (webhook, test) in due_tests(&context.services.db, room).await? {
        let lanes = context.lanes.clone();
        running.spawn(async move {
            if let Err(error) = lanes::run_test(&lanes, webhook, test).await {
                tracing::debug!(webhook.id = %webhook, error = %causes(&error), "a test of a webhook was not sent; the next look tries again");
            }
        });
    }
    Ok(())
}

/// Goes on with the orders of wms whose setting was switched on or off, or stored anew.
async fn switched(context: &WorkerContext, queues: &[Controlled]) -> Result<(), Problem> {
    if is_paused(queues, Queue::Handover) {
        return Ok(());
    }
    let filled = fill::fill(&context.services).await;
    let emptied = fill::empty(&context.services).await;
    let woken = wake::wake(&context.services).await;
    filled.and(emptied).and(woken).map(|_| ())
}

/// Looks over the lanes, and queues those in which something is due.
async fn scan(context: &WorkerContext, queues: &[Controlled], lanes: &mut Lanes) -> Result<(), Problem> {
    let started = Instant::now();
    if is_paused(queues, Queue::Lane) || lanes.rest_until.is_some_and(|until| started < until) {
        return Ok(());
    }
    let db = &context.services.db;
    let scan = lane::due_by(db, lanes.way(started), lanes.resume_after, LANES).await?;
    lanes.resume_after = scan.resume_after;
    let times = if lanes.resume_after.is_none() { REST } else { REST_BETWEEN };
    let ended = Instant::now();
    lanes.took(ended, ended - started);
    lanes.rest_until = Some(ended + ((ended - started) * times).min(LONGEST_REST));
    put(context, Queue::Lane, scan.lanes.iter().map(WebhookId::to_string).collect()).await
}

/// Requests jobs that send changed stocks to partners.
async fn send_out(context: &WorkerContext, queues: &[Controlled]) -> Result<(), Problem> {
    if is_paused(queues, Queue::Partner) {
        return Ok(());
    }
    changes::dispatch(&context.services).await.map(|_| ())
}

/// Queues what has just become due again. The next look over the lanes finds what does not arrive there.
async fn glance(context: &WorkerContext, queues: &[Controlled], lanes: &mut Lanes) -> Result<(), Problem> {
    if is_paused(queues, Queue::Lane) {
        return Ok(());
    }
    let retries = lane::retries(&context.services.db, lanes.retried_until, RETRIES).await?;
    lanes.retried_until = Some(retries.until);
    lanes.soon = retries.soon;
    put(context, Queue::Lane, retries.lanes.iter().map(WebhookId::to_string).collect()).await
}

/// Queues the wms whose systems have something due.
async fn hand_over(context: &WorkerContext, queues: &[Controlled]) -> Result<(), Problem> {
    if is_paused(queues, Queue::Handover) {
        return Ok(());
    }
    let due = wms_lane::due(&context.services.db).await?;
    put(context, Queue::Handover, due.iter().map(WmsId::to_string).collect()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_logged_once_and_so_is_the_recovery() {
        let mut course = Course::default();
        assert!(!course.succeeded());
        assert!(course.failed());
        // in between there may be nothing to queue, so nothing fails
        for _ in 0..3 {
            assert!(!course.failed());
            assert!((1..SETTLED).all(|_| !course.succeeded()));
        }
        assert!(course.succeeded());
        assert!((0..2 * SETTLED).all(|_| !course.succeeded()));
        assert!(course.failed());
    }
}
