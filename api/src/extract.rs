//! How input enters a handler: our own extractors, so that every rejection has the one error shape.

pub mod body;
pub mod failure;
pub mod headers;
pub mod id;
pub mod lines;
pub mod may;
pub mod once;
pub mod segment;

pub use body::{JsonBody, OptionalJson};
pub use failure::Failure;
pub use headers::{IfMatch, Prefer};
pub use id::Id;
pub use lines::Lines;
pub use may::{May, permit};
pub use once::Once;
pub use segment::Segment;
