//! The belt, broken on purpose. What kills, empties or stalls Redis has a server of its own; the rest shares one,
//! each test under its own prefix.

mod child;
mod control;
mod fault;
mod full;
mod kill;
mod marker;
mod outcome;
mod soak;
mod stop;
pub(crate) mod support;
mod takeover;
mod wish;
