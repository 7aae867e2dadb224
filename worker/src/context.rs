//! What every handler is given.

use std::sync::Arc;

use longshore_shared::partner::baselinker::window::{self, Window};
use longshore_shared::platform::queue::Queue;
use longshore_shared::platform::services::Services;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::isolation::Isolation;
use crate::jobs::webhook_lane::{LaneContext, OutcomeWriter};
use crate::leases::Leases;
use crate::outbound::Client;
use crate::partner::{PATIENCE, Tools};
use crate::places::Places;

/// Turns at partners of a process that was given no other number.
const PARTNER_PLACES: usize = 16;

/// Handed to every handler; cheap to clone.
#[derive(Clone, Debug)]
pub struct WorkerContext {
    /// Pools, queues, keys, clock.
    pub services: Arc<Services>,
    /// Keeps the claims of this process alive.
    pub leases: Leases,
    /// The one place in each queue for a suspect: a chunk that was running when a process died.
    pub suspects: [(Queue, Arc<Semaphore>); 2],
    /// Executes suspects in a process of their own; without it they run here, as everything does.
    pub isolation: Option<Isolation>,
    /// What running lanes takes.
    pub lanes: LaneContext,
    /// What partners are opened with.
    pub partners: Tools,
    /// The turns at partners that may run.
    pub partner_places: Places,
    /// Cancelled when the process is asked to stop.
    pub stop: CancellationToken,
}

impl WorkerContext {
    /// Around the services of the process.
    pub fn new(services: Services) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let client = Client::new(&services.outbound)?;
        let writer = OutcomeWriter::start(services.clone());
        let lanes = LaneContext::new(services.clone(), client.clone(), writer, stop.clone());
        let services = Arc::new(services);
        let baselinker = Window::new(&services.queues, window::DOCUMENTED);
        let partners = Tools { services: Arc::clone(&services), client, baselinker, patience: PATIENCE };
        Ok(Self {
            leases: Leases::new(Arc::clone(&services)),
            services,
            // a call of a partner lasts for minutes, which no chunk of rows waits for
            suspects: [Queue::Chunk, Queue::Partner].map(|queue| (queue, Arc::new(Semaphore::new(1)))),
            isolation: None,
            lanes,
            partners,
            partner_places: Places::of_long_turns(PARTNER_PLACES),
            stop,
        })
    }
}
