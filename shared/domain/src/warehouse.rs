//! Warehouses, the virtual ones (wms) that track inventory in them, stock, suppliers and stock advices.

pub mod stock;
pub mod stock_advice;
pub mod supplier;
#[expect(clippy::module_inception, reason = "the resource bears the name of its room")]
pub mod warehouse;
pub mod wms;
