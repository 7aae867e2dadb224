//! What every handler receives.

use std::sync::Arc;

use longshore_domain::expedition::silence;
use longshore_domain::partner::baselinker::window::{self, Window};
use longshore_kernel::queue::Queue;
use longshore_kernel::services::Services;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::handover::HandoverContext;
use crate::isolation::Isolation;
use crate::lanes::{LaneContext, OutcomeWriter};
use crate::leases::Leases;
use crate::outbound::Client;
use crate::partner::{PATIENCE, Tools};
use crate::places::Places;

/// Turns at partners of a process without a setting for them.
const PARTNER_PLACES: usize = 16;

/// Passed to every handler; cheap to clone.
#[derive(Clone, Debug)]
pub struct WorkerContext {
    /// Pools, queues, keys, clock.
    pub services: Arc<Services>,
    /// Keeps the claims of this process alive.
    pub leases: Leases,
    /// In each queue, one place for a suspect: a chunk that was running when a process died.
    pub suspects: [(Queue, Arc<Semaphore>); 2],
    /// Executes suspects in their own process; without it they run in this one.
    pub isolation: Option<Isolation>,
    /// What lanes need to run.
    pub lanes: LaneContext,
    /// What the lanes of wms need to run.
    pub handover: HandoverContext,
    /// What partners are opened with.
    pub partners: Tools,
    /// Decides which turns at partners may run.
    pub partner_places: Places,
    /// Days without news after which an order on its way was probably delivered.
    pub probably_delivered_days: u16,
    /// Cancelled when the process must stop.
    pub stop: CancellationToken,
}

impl WorkerContext {
    /// Creates the context of the process from its services.
    pub fn new(services: Services) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let client = Client::new(&services.outbound)?;
        let writer = OutcomeWriter::start(services.clone());
        let lanes = LaneContext::new(services.clone(), client.clone(), writer, stop.clone());
        let handover = HandoverContext::new(services.clone(), client.clone(), stop.clone());
        let services = Arc::new(services);
        let baselinker = Window::new(&services.queues, window::DOCUMENTED);
        let partners = Tools { services: Arc::clone(&services), client, baselinker, patience: PATIENCE };
        Ok(Self {
            leases: Leases::new(Arc::clone(&services)),
            services,
            // separate, because a call of a partner lasts for minutes, for which chunks of rows need not wait
            suspects: [Queue::Chunk, Queue::Partner].map(|queue| (queue, Arc::new(Semaphore::new(1)))),
            isolation: None,
            lanes,
            handover,
            partners,
            partner_places: Places::of_long_turns(PARTNER_PLACES),
            probably_delivered_days: silence::DAYS,
            stop,
        })
    }
}
