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
    /// What a dry run has found; `None` for other jobs.
    #[serde(default)]
    pub preview: Option<Preview>,
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
        "preview",
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
    /// Withheld ones: the guard of the sync did not let them destroy so much.
    #[serde(default)]
    pub withheld: u64,
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

/// What a dry run has found: records, but for `refused`, which are items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Preview {
    /// Created.
    pub created: u64,
    /// Changed.
    pub updated: u64,
    /// Left as they are.
    pub unchanged: u64,
    /// Refused.
    pub refused: u64,
    /// Products that would be switched off.
    pub deactivated: u64,
    /// Stocks that would be set from above 0 to 0.
    pub zeroed: u64,
    /// Orders that would get their pieces, at most.
    pub booked: u64,
    /// Orders that would wait for pieces, at most.
    pub waiting: u64,
    /// Deliveries to webhooks.
    pub deliveries: u64,
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
