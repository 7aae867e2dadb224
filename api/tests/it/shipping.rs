//! `/api/carrier` and `/api/carrier-service` (specification, parts 2 and 4; decisions, sections 3 and 4).

mod carrier;
mod scope;
