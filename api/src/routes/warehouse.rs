//! Warehouses, wms and stock (specification, part 4).

pub mod read;
pub mod stock_advice;
