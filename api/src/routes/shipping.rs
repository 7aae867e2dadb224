//! Carriers and what they offer (`docs/reference/carriers.md#carrier`).

pub mod carrier;
pub mod service;
