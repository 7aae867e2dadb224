//! Lanes: how workers share the deliveries of a webhook (the [room](super) says what a lane is).
//!
//! A turn of a worker is: [`lease()`], then [`fetch()`] and [`record()`] for as long as it lasts, with [`renew`] every
//! second, then [`release`]. Turns begin and end for many lanes in one statement: with ten thousand webhooks that have a
//! delivery each, this is most of the work. [`due`] finds lanes with deliveries to send that are not on the queue;
//! [`retries`] finds those with a retry, as soon as it is due.
//!
//! A lane may stay leased after its turn, without anything due: [`look`] renews all such leases of a worker and finds what is due
//! in them.
//!
//! Two rules keep a delivery from being sent twice in a turn. A fetch continues *after* the last row of the previous one; and
//! one that starts from the beginning gets the ids that are still in progress: those whose outcome was not known to be
//! committed *before this fetch began*. A third keeps it from being sent by two turns: the first fetch sees what the turn
//! before has recorded, since it is begun after the lease is committed, or after the one before was given back.
//!
//! A lane has a *beginning*, `nothing_before`: no open delivery is before it, so that a look does not read delivered rows
//! that a long transaction keeps from being vacuumed.

pub mod backlog;
mod batch;
mod fetch;
mod found;
mod hold;
mod late;
mod lease;
mod outcome;
mod owner;
mod rate;
mod record;
mod retry;
mod scan;
mod warm;

pub use self::fetch::fetch;
pub use self::found::{AT_ONCE, Batch, Cursor, Due, FEW, Found, From};
pub(in crate::webhook) use self::hold::{end_wait, hold_back, until_ending};
pub use self::lease::{Lease, Leased, lease, release, renew};
pub use self::outcome::{Attempt, Batched, End, Outcome, Reported};
pub use self::owner::owners;
pub use self::rate::{Paid, WAITED_FOR, pay, rest};
pub use self::record::record;
pub use self::retry::{Retries, retries};
pub use self::scan::{Scan, Way, due, due_by};
pub use self::warm::{Looked, look};
