//! Finds in Postgres what is due and puts it on the queues: what Redis lost, what waits for its time, what a dead process
//! held. It runs in every worker; the queue takes each name once, so any number may run.
//!
//! At every look it first reads what the operator wishes of the queues, and has this process obey: a paused queue is
//! neither read nor filled.

use std::time::Duration;

use longshore_shared::job::dispatch;
use longshore_shared::job::queue::{Queue, control};
use longshore_shared::partner::send_out::changes;
use longshore_shared::platform::problem::Problem;
use longshore_shared::platform::services::Services;
use longshore_shared::webhook::lane;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use crate::context::WorkerContext;
use crate::jobs::upkeep;
use crate::queue::QueueControl;

/// How often it looks: what the queue lost is a second late.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the upkeep is due, in looks.
const UPKEEP_EVERY: u32 = 60;
/// Lanes that one look goes over; the next one goes on where it ended.
const LANES: usize = 20_000;
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
    for wish in control::wishes(&services.db.main).await? {
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
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looks: u32 = 0;
    let mut resume_after = None;
    let mut failing = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = context.stop.cancelled() => return,
        }
        let looked = look(&context, &queues, looks.is_multiple_of(UPKEEP_EVERY), &mut resume_after).await;
        looks = looks.wrapping_add(1);
        match looked {
            Ok(()) if failing => {
                failing = false;
                tracing::info!("dispatching again");
            }
            // said once: the next thousand looks will fail for the same reason
            Err(error) if !failing => {
                failing = true;
                tracing::warn!(%error, "cannot dispatch, trying again every second");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

async fn look(
    context: &WorkerContext,
    queues: &[Controlled],
    upkeep_is_due: bool,
    resume_after: &mut Option<Uuid>,
) -> Result<(), Problem> {
    let services = &context.services;
    obey(services, queues).await?;
    let paused =
        |queue| queues.iter().any(|controlled| controlled.queue == queue && controlled.handle.is_paused());
    let put = async |queue, names: Vec<String>| {
        if names.is_empty() {
            return Ok(());
        }
        services.queues.put(queue, &names, PATIENCE).await.map(|_| ()).map_err(Problem::internal)
    };
    if !(paused(Queue::Chunk) && paused(Queue::Partner)) {
        let (chunks, calls): (Vec<_>, Vec<_>) = dispatch::due(&services.db.main)
            .await?
            .into_iter()
            .partition(|(queue, _)| *queue == Queue::Chunk);
        for (queue, due) in [(Queue::Chunk, chunks), (Queue::Partner, calls)] {
            if !paused(queue) {
                put(queue, due.into_iter().map(|(_, name)| name).collect()).await?;
            }
        }
    }
    if !paused(Queue::Lane) {
        let scan = lane::due(&services.db, *resume_after, LANES).await?;
        *resume_after = scan.resume_after;
        put(Queue::Lane, scan.lanes.iter().map(Uuid::to_string).collect()).await?;
    }
    if upkeep_is_due && !paused(Queue::Upkeep) {
        put(Queue::Upkeep, upkeep::TASKS.iter().map(|task| (*task).to_owned()).collect()).await?;
    }
    // last: what goes wrong with it holds up nothing else
    if !paused(Queue::Partner) {
        changes::dispatch(services).await?;
    }
    Ok(())
}
