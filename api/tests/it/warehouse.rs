//! `/api/warehouse`, `/api/wms` and `/api/supplier` (`docs/reference/warehouses.md#warehouse`).

mod places;
mod supplier;
