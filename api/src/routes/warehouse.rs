//! Warehouses, wms and stock (`docs/reference/warehouses.md#warehouse`).

pub mod read;
pub mod stock_advice;
pub mod supplier;
#[expect(clippy::module_inception, reason = "the resource bears the name of its room")]
pub mod warehouse;
pub mod wms;
