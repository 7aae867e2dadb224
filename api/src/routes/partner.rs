//! Partner integration (specification, part 4; decisions, section 6).

pub mod setting;
pub mod sync;
