//! Warehouses, wms and stock (`docs/reference/warehouses.md#warehouse`).

pub mod read;
pub mod stock_advice;
