//! What operators look at and do. It reads from all other rooms, and none of them imports it.

pub mod backlog;
pub mod doctor;
pub mod rotation;
pub mod standing;
