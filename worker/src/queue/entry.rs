//! An entry of a stream, as this process handles it.

use std::fmt;
use std::time::Duration;

use longshore_kernel::queue::ID_FIELD;
use redis::RedisResult;

/// A field of entries that were given back: the number of earlier deliveries.
pub(super) const DELIVERIES_FIELD: &str = "n";

/// Alternating names and values, as Redis returns them.
pub(super) type Fields = Vec<Vec<u8>>;

/// Entries as Redis returns them; an entry deleted while it was pending has no fields.
pub(super) type ClaimedEntries = Vec<(String, Option<Fields>)>;

/// How often the entry was handed to a worker, including this time. Handler argument `Data<Deliveries>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deliveries(pub u64);

/// An entry that a worker received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The key in the stream.
    pub(super) key: String,
    /// The queued id as bytes; the backend checks whether it is text.
    pub(super) id: Vec<u8>,
    pub(super) deliveries: u64,
}

impl Entry {
    /// Reads an entry that has now been delivered `count` times since it was added.
    pub(super) fn new(key: String, fields: Fields, count: u64) -> Self {
        let mut entry = Self { key, id: Vec::new(), deliveries: count };
        let mut fields = fields.into_iter();
        while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            if name == ID_FIELD.as_bytes() {
                entry.id = value;
            } else if name == DELIVERIES_FIELD.as_bytes() {
                let before = String::from_utf8_lossy(&value).parse().unwrap_or(0);
                entry.deliveries = count.saturating_add(before);
            }
        }
        entry
    }

    /// The id as text, lossily, for logs and markers.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.id).into_owned()
    }
}

/// What to do with an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Finished, with any result: the row in Postgres decides about another attempt.
    Done,
    /// Never started, or cut off by a stop: back to the queue at once, without counting this delivery.
    GiveBack,
    /// The same entry again after this time, at most the visibility.
    Later(Duration),
    /// It cannot be processed.
    Dead(DeadReason),
}

/// An entry that was put aside, as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    /// The id on the queue.
    pub id: String,
    /// Why it was put aside.
    pub reason: DeadReason,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// Why an entry was put aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadReason {
    /// Delivered too often without a result: it seems to kill the process that handles it.
    TooManyDeliveries,
    /// The id does not parse.
    Undecodable,
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooManyDeliveries => "too many deliveries",
            Self::Undecodable => "undecodable id",
        })
    }
}

/// Whether an error means that the group is gone (`FLUSHALL`, `XGROUP DESTROY`, a stream deleted under a
/// blocked read).
pub(super) fn is_group_gone(error: &redis::RedisError) -> bool {
    let is_gone = |code: &str| matches!(code, "NOGROUP" | "UNBLOCKED");
    // the error of a pipeline has a code for each command, and none of its own
    let errors = error.clone().into_server_errors();
    errors.is_some_and(|errors| errors.iter().all(|(_, error)| is_gone(error.code())))
}

/// Ignores that the group is gone: it then holds nothing, so there is nothing left to do.
pub(super) fn unless_group_gone(result: RedisResult<()>) -> RedisResult<()> {
    match result {
        Err(error) if is_group_gone(&error) => Ok(()),
        other => other,
    }
}
