//! Shipping: carriers, and the services they offer (`docs/reference/carriers.md#carrier`).
//!
//! Both are the operator's. An organisation sees the carriers that it is attached to, and their services; of the other
//! organisations of a carrier it learns nothing.

pub mod carrier;
pub mod service;
