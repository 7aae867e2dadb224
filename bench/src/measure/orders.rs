//! Orders: placed one by one over HTTP, imported as NDJSON, handed over, and those that wait for goods.

mod depot;
pub(super) mod handover;
pub(super) mod import;
pub(super) mod news;
pub(crate) mod page;
pub(super) mod place;
pub(super) mod receipt;
pub(super) mod wait;
