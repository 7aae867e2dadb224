//! Where goods are: physical warehouses, the virtual ones (wms) that track inventory in them, and the stock.

pub mod stock;
pub mod stock_advice;
#[expect(clippy::module_inception, reason = "the resource bears the name of its room")]
pub mod warehouse;
pub mod wms;
