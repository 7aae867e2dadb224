//! An entry of a stream, on its way through this process.

use std::fmt;
use std::time::Duration;

use longshore_shared::platform::queue::ID_FIELD;
use redis::RedisResult;

/// The field of an entry that was given back: how often it had been delivered before.
pub(super) const DELIVERIES_FIELD: &str = "n";

/// Names and values by turns, as Redis gives them.
pub(super) type Fields = Vec<Vec<u8>>;

/// Entries as Redis gives them; one that was deleted while it was pending has no fields.
pub(super) type Found = Vec<(String, Option<Fields>)>;

/// How often the entry was handed to a worker, this time included. Handler argument `Data<Deliveries>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deliveries(pub u64);

/// What a worker was handed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The stream's name for it.
    pub(super) key: String,
    /// The id that was put on the queue, as bytes: whether it is text is for the backend to find out.
    pub(super) id: Vec<u8>,
    pub(super) deliveries: u64,
}

impl Entry {
    /// Reads an entry that was now delivered for the `count`th time since it was added.
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

    /// The id as far as it is text, for logs and markers.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.id).into_owned()
    }
}

/// What became of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Finished, whatever the result: the row in Postgres decides about another attempt.
    Done,
    /// Never started, or cut off by a stop: back to the queue at once, this delivery uncounted.
    GiveBack,
    /// The same entry again after this time, at most the visibility.
    Later(Duration),
    /// Cannot be worked on.
    Dead(DeadReason),
}

/// An entry that was put aside, as its owner learns of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    /// The id that was on the queue.
    pub id: String,
    /// Why it was put aside.
    pub reason: DeadReason,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// Why an entry was put aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadReason {
    /// Delivered too often without a result: it seems to kill the process that works on it.
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

/// Errors that say that the group is gone (`FLUSHALL`, `XGROUP DESTROY`, a stream deleted under a blocked read).
pub(super) fn is_group_gone(error: &redis::RedisError) -> bool {
    let is_gone = |code: &str| matches!(code, "NOGROUP" | "UNBLOCKED");
    // what was asked in one go has errors, and no code of its own
    let errors = error.clone().into_server_errors();
    errors.is_some_and(|errors| errors.iter().all(|(_, error)| is_gone(error.code())))
}

/// A group that is gone holds nothing; what was asked of it is as good as done.
pub(super) fn unless_group_gone(result: RedisResult<()>) -> RedisResult<()> {
    match result {
        Err(error) if is_group_gone(&error) => Ok(()),
        other => other,
    }
}
