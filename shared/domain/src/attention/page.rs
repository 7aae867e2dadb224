//! Where a caller sees more of a line. The console has an address for each.

use crate::job::kind::JobState;
use longshore_kernel::queue::Queue;
use uuid::Uuid;

/// What shows a line, or what is switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// The overview of the service.
    Overview,
    /// All queues.
    Queues,
    /// A queue.
    Queue(Queue),
    /// Jobs that failed, and deliveries that were exhausted.
    Failures,
    /// Jobs in a state.
    Jobs(JobState),
    /// Integrations that are paused.
    PausedIntegrations,
    /// Warehouse systems.
    Warehouses,
    /// Orders that need attention, and what they wait for.
    Orders,
    /// Webhooks with this state of health; all without one.
    Webhooks(Option<&'static str>),
    /// Webhooks of this host.
    WebhooksAt(String),
    /// Records of the audit with this action, by whomever.
    Audit(&'static str),
    /// A record, by its type in the audit.
    Record(&'static str, Uuid),
}

/// Gives a page its address. Only the console knows it.
pub type Address = fn(&Page) -> String;
