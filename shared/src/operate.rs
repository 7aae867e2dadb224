//! What whoever runs the service looks at and does: it reads from all other rooms, and none of them imports it.

pub mod doctor;
pub mod rotation;
pub mod standing;
