//! Orders, which the API calls expeditions (`docs/reference/orders.md#order`).
//!
//! - `body` reads what a caller says of an order, `references` finds what it refers to, `order` is an order in memory, `choice`
//!   finds a carrier for one that names none.
//! - `allocator` and `decision` decide; they are pure.
//! - `stocks` locks what is decided about, `write` writes it, `tally` counts it for the metrics.
//! - `handover` is what a system of a warehouse has of them.
//! - `create`, `edit`, `command`, `progress` are the use-cases; `import`, `news`, `allocation` and `silence` are the worker's;
//!   `report` is what `progress` and `news` share; `together` gives the requests of the same moment one transaction.

pub mod allocation;
pub mod allocator;
pub mod body;
pub mod bulk;
mod choice;
pub mod command;
pub mod create;
mod decision;
pub mod edit;
pub mod handover;
pub mod import;
pub mod invariants;
pub mod invoice;
pub mod news;
mod order;
pub mod progress;
mod references;
mod report;
pub mod silence;
mod stocks;
mod tally;
pub mod together;
mod write;
