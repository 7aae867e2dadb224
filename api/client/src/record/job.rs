//! Jobs, their progress, and why items were refused.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{JobState, Outcome};

/// A job: recorded work, such as a sync.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Job {
    /// Its id.
    pub id: Uuid,
    /// Its kind, as in `product.sync`.
    pub kind: String,
    /// Its state.
    pub state: JobState,
    /// Its progress.
    pub progress: Progress,
    /// The outcome of a succeeded job.
    pub outcome: Option<Outcome>,
    /// The result of a job that sends deliveries again.
    pub result: Option<JobResult>,
    /// What a test of a connection found out; `None` until it has ended, and for other jobs.
    pub connection: Option<Connection>,
    /// Why it failed.
    pub error: Option<String>,
}

impl Job {
    /// The kinds of jobs that this version knows.
    pub const KINDS: &[&str] = &[
        "product.activate",
        "product.deactivate",
        "product.sync",
        "stock.sync",
        "stock.send",
        "expedition.sync",
        "expedition.news",
        "expedition.send",
        "expedition.process",
        "expedition.rollback",
        "expedition.cancel",
        "admin.activate",
        "admin.deactivate",
        "admin.delete",
        "webhook.recover",
        "webhook.redeliver",
        "webhook.replay",
        "integration.test",
        "wms.test",
    ];
}

/// The progress of a job, in items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// All items.
    pub total: u64,
    /// Processed ones.
    pub done: u64,
    /// Created or changed ones.
    pub changed: u64,
    /// Unchanged ones.
    pub unchanged: u64,
    /// Refused ones.
    pub failed: u64,
}

/// The result of a job that sends deliveries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct JobResult {
    /// Waiting deliveries that are due at once.
    pub released: u64,
    /// Failed deliveries that were sent again.
    pub resent: u64,
}

/// What a test of a connection found out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Connection {
    /// Whether it works.
    pub works: bool,
    /// What happened.
    pub message: String,
    /// How long the call took.
    pub duration_ms: u64,
}

/// Why an item of a job was refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ItemError {
    /// Its position in the request, from 0.
    pub index: u64,
    /// Its line in an NDJSON body, from 1.
    pub line: Option<u64>,
    /// The id or `productSku` of the item, if it has a readable one.
    pub key: Option<String>,
    /// The rule, for programs.
    pub code: String,
    /// What is wrong, for people.
    pub message: String,
}
