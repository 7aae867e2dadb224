//! Warehouses, wms and stock (specification, part 4).

pub mod read;
pub mod stock_advice;
pub mod supplier;
#[expect(clippy::module_inception, reason = "the resource bears the name of its room")]
pub mod warehouse;
pub mod wms;
