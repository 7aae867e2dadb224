//! What operators look at and do. It reads from all of the domain, and nothing in the domain imports it.

pub mod backlog;
pub mod doctor;
pub mod order;
pub mod queue;
pub mod rotation;
pub mod standing;
