//! Finds in Postgres what is due and puts it on the queues: what Redis lost, what waits for its time, what a dead process
//! held. It runs in every worker; the queue takes each name once, so any number may run.

use std::time::Duration;

use longshore_shared::job::dispatch;
use longshore_shared::job::queue::Queue;
use longshore_shared::platform::problem::Problem;
use longshore_shared::webhook::lane;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use crate::context::WorkerContext;
use crate::jobs::upkeep;

/// How often it looks: what the queue lost is a second late.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the upkeep is due, in looks.
const UPKEEP_EVERY: u32 = 60;
/// Lanes that one look goes over; the next one goes on where it ended.
const LANES: usize = 20_000;
/// How long Redis may take; what it does not take is found at the next look.
const PATIENCE: Duration = Duration::from_secs(1);

/// Looks until the process stops.
pub async fn run(context: WorkerContext) {
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
        let looked = look(&context, looks.is_multiple_of(UPKEEP_EVERY), &mut resume_after).await;
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
    upkeep_is_due: bool,
    resume_after: &mut Option<Uuid>,
) -> Result<(), Problem> {
    let services = &context.services;
    let put = async |queue, names: Vec<String>| {
        if names.is_empty() {
            return Ok(());
        }
        services.queues.put(queue, &names, PATIENCE).await.map(|_| ()).map_err(Problem::internal)
    };
    put(Queue::Chunk, dispatch::due(&services.db.main).await?).await?;
    let scan = lane::due(&services.db, *resume_after, LANES).await?;
    *resume_after = scan.resume_after;
    put(Queue::Lane, scan.lanes.iter().map(Uuid::to_string).collect()).await?;
    if upkeep_is_due {
        put(Queue::Upkeep, upkeep::TASKS.iter().map(|task| (*task).to_owned()).collect()).await?;
    }
    Ok(())
}
