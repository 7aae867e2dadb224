//! Lanes: how workers share the deliveries of a webhook (the [room](super) says what a lane is).
//!
//! A turn of a worker is: [`lease()`], then [`fetch()`] and [`record`] for as long as it lasts, [`renew`] every
//! second meanwhile, then [`release`]. What begins and ends turns is asked of many lanes at once: where ten thousand webhooks
//! have a delivery each, that is most of the work. [`due`] finds the lanes that have something to send, whoever forgot
//! them; [`retries`] those that have something to try again, the moment it is due.
//!
//! Two rules keep a delivery from being sent twice in a turn. A fetch goes on *after* the last row of the one before;
//! and one that starts from the beginning is told the ids that are still in hand, which are those whose outcome was not
//! known to be committed *before this fetch was begun*. A third keeps it from being sent by two turns: the first fetch
//! sees what the turn before has recorded, since it is begun after the lease is committed, or after the one before was
//! given back.

pub mod backlog;
mod fetch;
mod lease;
mod outcome;
mod retry;
mod scan;

pub use self::fetch::{BATCH, Batch, Cursor, Due, FEW, From, fetch};
pub use self::lease::{LEASE, Lease, Leased, Renewed, lease, release, renew};
pub use self::outcome::{Attempt, End, Outcome, Reported, record};
pub use self::retry::{Retries, retries};
pub use self::scan::{Scan, due};
