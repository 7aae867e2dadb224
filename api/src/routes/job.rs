//! Jobs: reading, following, cancelling, retrying (decisions, section 5).

pub mod answer;
pub mod control;
pub mod events;
pub mod item_error;
pub mod queue;
pub mod read;
