//! How one queue is read.

use std::time::Duration;

use longshore_shared::platform::queue::control;

/// No operator may ask for more tasks at once than this, on one queue of one process.
pub const MAX_CONCURRENCY: usize = control::MAX_CONCURRENCY as usize;

/// How one queue is read. The defaults follow from the promise that others take over within five seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Tasks that may run at once, from 1 to [`MAX_CONCURRENCY`]; the start value of `QueueControl::set_concurrency`.
    pub concurrency: usize,
    /// Entries held beyond those that run. Only for short tasks: what waits here cannot run elsewhere.
    pub prefetch: usize,
    /// Tasks that are started beyond those: of a handler that itself says who of them may run. They wait there in its order, and
    /// not in that of the stream.
    pub ahead: usize,
    /// Entries of one read at most: the others who read have theirs, too.
    pub read_at_most: usize,
    /// How long one read waits for entries. Not a delay: an entry that arrives ends the read.
    pub block: Duration,
    /// An entry that nobody kept alive for this long belongs to whoever asks. Kept alive three times as often.
    pub visibility: Duration,
    /// How often a worker with free slots looks for such entries.
    pub claim_every: Duration,
    /// An entry delivered this often without a result is put aside.
    pub max_deliveries: u64,
    /// Consumers that hold nothing and were silent for this long are removed from the group.
    pub forget_consumer: Duration,
    /// How long closing may take to hand results and unstarted entries back.
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
