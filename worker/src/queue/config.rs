//! Settings of reading one queue.

use std::time::Duration;

use longshore_kernel::queue::control;

/// The highest concurrency that an operator may set for one queue of one process.
pub const MAX_CONCURRENCY: usize = control::MAX_CONCURRENCY as usize;

/// Settings of reading one queue. The defaults follow from the guarantee that others take over within five
/// seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Tasks that may run at once, from 1 to [`MAX_CONCURRENCY`]; the initial value of
    /// `QueueControl::set_concurrency`.
    pub concurrency: usize,
    /// Entries held in addition to the running ones. Only for short tasks: an entry that waits here cannot
    /// run elsewhere.
    pub prefetch: usize,
    /// Tasks started in addition to those, for a handler that decides itself which of them run. They then
    /// wait in its order instead of that of the stream.
    pub ahead: usize,
    /// Maximum number of entries per read, which leaves some for other consumers.
    pub read_at_most: usize,
    /// How long one read waits for entries. It is no delay: an entry that arrives ends the read.
    pub block: Duration,
    /// Another worker may take over an entry that was not kept alive for this long. Entries are kept alive
    /// three times as often.
    pub visibility: Duration,
    /// How often a worker with free slots looks for such entries.
    pub claim_every: Duration,
    /// An entry delivered this often without a result is put aside.
    pub max_deliveries: u64,
    /// Consumers that hold nothing and were silent for this long are removed from the group.
    pub forget_consumer: Duration,
    /// How long closing may take to write results and give back entries that did not start.
    pub close_grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            concurrency: 16,
            prefetch: 0,
            ahead: 0,
            read_at_most: 256,
            block: Duration::from_secs(2),
            visibility: Duration::from_secs(3),
            claim_every: Duration::from_secs(1),
            max_deliveries: 3,
            forget_consumer: Duration::from_mins(5),
            close_grace: Duration::from_secs(5),
        }
    }
}
