//! What a use-case needs of its process: pools, queues, keys, clock.

use super::clock::Clock;
use super::config::OutboundSettings;
use super::crypto::Vault;
use super::database::Database;
use super::metrics::Metrics;
use super::objects::Objects;
use super::quota::Quotas;
use crate::queue::Queues;
use crate::refusals::Refusals;
use crate::rest::Rests;

/// Handed to every use-case; cheap to clone.
#[derive(Clone, Debug)]
pub struct Services {
    /// Pools of Postgres.
    pub db: Database,
    /// Write side of the queues.
    pub queues: Queues,
    /// Seals and opens secrets.
    pub vault: Vault,
    /// Bytes of images.
    pub objects: Objects,
    /// The clock.
    pub clock: Clock,
    /// What destinations may be.
    pub outbound: OutboundSettings,
    /// What is measured.
    pub metrics: Metrics,
    /// How much of a kind organisations may have.
    pub quotas: Quotas,
    /// Jobs of an organisation that may be unfinished when another is accepted.
    pub unfinished_jobs: u32,
    /// Refusals, for log, metrics and audit.
    pub refusals: Refusals,
    /// Looks that rest because they took long.
    pub rests: Rests,
}
