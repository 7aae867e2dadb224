//! Partner integration (`docs/reference/syncs.md#syncs`).

pub mod setting;
pub mod sync;
pub mod wms_setting;
