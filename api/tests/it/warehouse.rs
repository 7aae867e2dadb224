//! `/api/warehouse`, `/api/wms` and `/api/supplier` (specification, part 2; decisions, section 4).

mod places;
mod supplier;
