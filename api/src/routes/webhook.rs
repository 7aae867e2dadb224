//! Webhooks and their deliveries.

pub mod delivery;
pub mod read;
pub mod reader;
pub mod subscription;
