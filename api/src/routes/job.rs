//! Jobs: reading, following, cancelling, retrying (`docs/reference/jobs.md#job`).

pub mod answer;
pub mod control;
pub mod events;
pub mod ids;
pub mod item_error;
pub mod queue;
pub mod read;
