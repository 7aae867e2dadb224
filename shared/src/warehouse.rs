//! Where goods are: physical warehouses, the virtual ones (wms) that track inventory in them, the stock, and whom
//! it comes from.

pub mod stock;
pub mod stock_advice;
pub mod supplier;
#[expect(clippy::module_inception, reason = "the resource bears the name of its room")]
pub mod warehouse;
pub mod wms;
