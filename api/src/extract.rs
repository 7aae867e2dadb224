//! How input enters a handler: our own extractors, so that every rejection has the one error shape.

pub mod body;
pub mod failure;
pub mod form;
pub mod headers;
pub mod id;
pub mod lines;
pub mod may;
pub mod once;
pub mod segment;
pub mod stall;
pub mod visitor;

pub use body::{JsonBody, OptionalJson};
pub use failure::Failure;
pub use form::FileForm;
pub use headers::{IfMatch, IfNoneMatch, Prefer};
pub use id::{Id, Ids};
pub use lines::Lines;
pub use may::{May, permit};
pub use once::Once;
pub use segment::Segment;
pub use stall::Stall;
pub use visitor::At;
