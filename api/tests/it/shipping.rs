//! `/api/carrier` and `/api/carrier-service` (`docs/reference/carriers.md#carrier`).

mod carrier;
mod preference;
mod scope;
