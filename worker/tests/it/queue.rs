//! The queues under faults. Tests that kill, empty or stall Redis have a private server; the others share
//! one, each with its own prefix.

mod child;
mod control;
mod fault;
mod full;
mod kill;
mod marker;
mod outcome;
mod sentinel;
mod soak;
mod stop;
pub(crate) mod support;
mod takeover;
mod wish;
