//! Partner integration (`docs/reference/syncs.md#syncs`).

pub mod setting;
pub mod sync;
