//! Carriers and their services (`docs/reference/carriers.md#carrier`).

pub mod carrier;
pub mod preference;
