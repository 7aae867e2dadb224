//! Jobs: reading, following, cancelling, retrying (`docs/reference/jobs.md#job`).

pub mod answer;
pub mod chosen;
pub mod control;
pub mod events;
pub mod item_error;
pub mod queue;
pub mod read;
