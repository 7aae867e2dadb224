//! Orders, which the API calls expeditions (`docs/reference/orders.md#order`).
//!
//! # Terms
//!
//! - An order is **sent** when it is to be shipped. A sent order is **booked** whole or not at all: its pieces are held in the stocks
//!   of its *place*, a warehouse with one of its wms. An order that cannot be booked waits for a stock.
//! - A stock is **marked** while orders that wait for it may be served, or bookings are no longer covered. Workers allocate the places
//!   with marked stocks, one transaction at a time.
//! - A **hand-over** gives an order to the system of its warehouse. **News** are what that system reports.
//!
//! # Modules
//!
//! - What an order is: `body` reads the fields of a request, `references` finds the records that they name, `order` is an order in
//!   memory, `shipper` who ships it, `choice` finds a carrier for an order without one.
//! - Decisions, without I/O: `allocator` and `decision`.
//! - Writing: `stocks` locks the stocks that a decision needs, `write` writes what was decided, `tally` counts it for the metrics.
//! - Use-cases of requests: `create`, `edit`, `command`, `progress`, `invoice`. `together` runs requests of the same moment in one
//!   transaction, and `company` is what such a request knows of that.
//! - Use-cases of workers: `import`, `bulk`, `news`, `allocation`, `silence`. `report` has what `progress` and `news` share.
//! - `handover` is the hand-over to systems of warehouses; `invariants` finds orders and stocks that contradict each other.

pub mod allocation;
pub mod allocator;
pub mod body;
pub mod bulk;
mod choice;
pub mod command;
mod company;
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
mod shipper;
pub mod silence;
mod stocks;
mod tally;
pub mod together;
mod write;
