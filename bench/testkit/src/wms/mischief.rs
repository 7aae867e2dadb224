//! Faults of a WMS, one call at a time: what a network, a crash or a mistake does to a call.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

/// The calls that a fault waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The next call.
    Any,
    /// The next hand-over.
    Put,
    /// The next withdrawal.
    Delete,
    /// The next call about this order.
    Order(Uuid),
}

/// What happens to a call instead of the usual answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Mischief {
    /// No fault.
    None,
    /// Nothing is done, and this status comes: a failure, or a lie.
    Status(u16),
    /// Nothing is done; this status comes with a `Retry-After` of this many seconds.
    RetryAfter(u16, u64),
    /// The hand-over is refused with 422 and these violations, and so is each repetition of its number.
    Refuse(Value),
    /// The answer is the usual one, and nothing is done.
    Lie,
    /// Nothing is done, and no answer comes.
    Hang,
    /// Nothing is done, and the connection is closed.
    Cut,
    /// It is done, and no answer comes.
    DoneHang,
    /// It is done, and the connection is closed.
    DoneCut,
    /// It is done, and this status comes.
    DoneStatus(u16),
    /// It is done, and the answer comes after this time.
    Late(Duration),
    /// It is done, and an answer of success breaks off in the middle.
    Short,
    /// It is done, and an answer of success has no end.
    Flood,
    /// It is done, and an answer of success has this many bytes.
    Large(usize),
    /// It is done, and an answer of success is a web page.
    WebPage,
    /// Nothing is done; the answer is a redirect to this URL.
    Redirect(String),
    /// The connection is closed, and the call is done later: after the next one about the same order, which
    /// has overtaken it in the network.
    Overtaken,
    /// Everything is forgotten before the call, as after the loss of a disk.
    Forget,
}
