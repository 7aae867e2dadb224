//! Jobs executed within the test: accepted as by the api, found with the dispatcher's query, run by the
//! worker's handler. Redis is not used, so each test controls every step.

mod admin_bulk;
mod audit;
mod beside;
mod bound;
mod cancel_and_retry;
pub(crate) mod claim;
mod contention;
mod csv;
mod finished;
mod guard;
mod halving;
mod leases;
mod order;
mod physical;
mod preview;
mod product_switch;
mod product_sync;
mod receiving;
mod redelivery;
mod references;
mod replay;
mod retention;
mod room;
mod statistics;
mod stock_sync;
pub(crate) mod support;
mod suspicion;
mod turns;
mod unknown;
