//! Carriers and what they offer (specification, part 4).

pub mod carrier;
pub mod service;
