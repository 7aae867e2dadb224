//! Hands orders over to the systems of warehouses: one turn of the lane of a wms
//! (`longshore_domain::expedition::handover` says what a hand-over is).
//!
//! - [`run`] takes one of the [`places`](crate::places) of the process, leases the lane, lets a [`turn`] call, and releases the
//!   lease. If more is due, the wms goes to the end of its queue.
//! - The lease is kept by the [`Keeper`](crate::lanes::keeper), as that of a webhook.
//! - A [`call`] is one order being asked for: the signed request, and the meaning of its answer.
//! - A [`test()`] is one call about an order that does not exist, outside of the lane.
//! - Outcomes of all lanes are recorded together ([`Recorder`]).
//!
//! # Guarantees
//!
//! - A call is recorded before it begins, so an order that the warehouse may have is never taken back.
//! - Of one order one call is under way at a time, also where a worker dies in the middle.
//! - A system that fails is asked by one probe at a time; one that hangs holds its own place and no other.
//! - A lock that a request keeps delays the outcomes of what it has locked, and no others.

mod call;
mod record;
mod trial;
mod turn;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_domain::expedition::handover::lane;
use longshore_kernel::ids::WmsId;
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;
use longshore_kernel::services::Services;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::record::Recorder;
pub use self::trial::test;
use crate::lanes::keeper::{Keeper, LeaseState};
use crate::outbound::Client;
use crate::places::Places;

/// Places of a process without a setting for them.
const PLACES: usize = 64;

/// What the lanes of wms need to run; one for the process, cheap to clone.
#[derive(Clone, Debug)]
pub struct HandoverContext {
    /// Pools, queues, keys, clock.
    pub services: Services,
    /// The client for outbound calls.
    pub client: Client,
    /// Cancelled when the process stops: nothing new is called, and calls under way finish.
    pub stop: CancellationToken,
    /// The time limit of a whole exchange.
    pub deadline: Duration,
    /// Decides which lanes may run.
    pub places: Places,
    recorder: Recorder,
    running: Running,
}

impl HandoverContext {
    /// Creates the context and starts its tasks.
    #[must_use]
    pub fn new(services: Services, client: Client, stop: CancellationToken) -> Self {
        Self {
            recorder: Recorder::start(services.clone()),
            services,
            client,
            stop,
            deadline: call::DEADLINE,
            places: Places::new(PLACES),
            running: Running::default(),
        }
    }
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// Nothing ran: the lane is leased, waits for its next probe, its setting is not active, or no place was free.
    NotLeased,
    /// Nothing more is due.
    Done,
    /// More is due, and the wms is on its queue again.
    More,
}

/// Runs one turn of the lane of a wms.
pub async fn run(context: &HandoverContext, wms: WmsId) -> Result<Ran, Problem> {
    if context.stop.is_cancelled() || context.running.nudge(wms) {
        return Ok(Ran::NotLeased);
    }
    let services = &context.services;
    let Some(organisation) = lane::owner(&services.db, wms).await? else { return Ok(Ran::NotLeased) };
    let entered = tokio::select! {
        entered = context.places.enter(wms.get(), organisation) => entered,
        () = context.stop.cancelled() => None,
    };
    let Some(mut place) = entered else { return Ok(Ran::NotLeased) };
    // a turn may have started while this one waited for a place
    if context.running.nudge(wms) {
        return Ok(Ran::NotLeased);
    }
    let Some(lease) = lane::lease(services, wms).await? else { return Ok(Ran::NotLeased) };
    if lease.breaker.has_failed() {
        place.set_slow(true);
    }
    let lease = Arc::new(lease);
    let keeper = {
        let (db, lease) = (services.db.clone(), Arc::clone(&lease));
        Keeper::keep(lease.until, move |ending| {
            let (db, lease) = (db.clone(), Arc::clone(&lease));
            async move { lane::renew(&db, &lease, ending).await }
        })
    };
    let entry = context.running.enter(wms, keeper.standing());
    let turn = turn::Turn::new(context, Arc::clone(&lease), keeper, Arc::clone(&entry.nudge), &mut place);
    let called = turn.run().await;
    drop(entry);
    let more = lane::release(&services.db, &lease).await;
    drop(place);
    called?;
    if more? && !context.stop.is_cancelled() {
        services.queues.hand_over(Queue::Handover, [wms.to_string()]);
        return Ok(Ran::More);
    }
    Ok(Ran::Done)
}

/// The lanes that this process runs now.
#[derive(Clone, Debug, Default)]
struct Running(Arc<Mutex<HashMap<WmsId, Turning>>>);

/// A running turn, as the rest of the process sees it.
#[derive(Clone, Debug)]
struct Turning {
    nudge: Arc<Notify>,
    standing: LeaseState,
}

impl Running {
    fn enter(&self, wms: WmsId, standing: LeaseState) -> Entry {
        let nudge = Arc::new(Notify::new());
        self.lanes().insert(wms, Turning { nudge: Arc::clone(&nudge), standing });
        Entry { running: self.clone(), wms, nudge }
    }

    /// Makes the turn of a lane look for due calls; `false` if none runs here, or only one that has lost its lease.
    fn nudge(&self, wms: WmsId) -> bool {
        let lanes = self.lanes();
        let Some(turning) = lanes.get(&wms).filter(|turning| turning.standing.holds()) else { return false };
        turning.nudge.notify_one();
        true
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<WmsId, Turning>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lane's entry among the running ones; dropping it removes it.
struct Entry {
    running: Running,
    wms: WmsId,
    nudge: Arc<Notify>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut lanes = self.running.lanes();
        // a later turn may have entered already, after this one lost its lease
        if lanes.get(&self.wms).is_some_and(|turning| Arc::ptr_eq(&turning.nudge, &self.nudge)) {
            lanes.remove(&self.wms);
        }
    }
}
