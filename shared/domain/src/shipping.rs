//! Shipping: carriers, the services they offer (`docs/reference/carriers.md#carrier`), and by which of them an organisation
//! ships an order that names none.
//!
//! Carriers and services are the operator's. An organisation sees the carriers that it is attached to, and their services; of the other
//! organisations of a carrier it learns nothing.

pub mod carrier;
pub mod preference;
pub mod service;
