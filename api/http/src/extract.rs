//! Extractors: how input enters a handler. The service uses only its own, so that every rejection has the one
//! error shape.

pub mod accept;
pub mod arriving;
pub mod body;
pub mod budget;
pub mod csv;
pub mod document;
pub mod failure;
pub mod form;
pub mod headers;
pub mod id;
pub mod lines;
pub mod login;
pub mod may;
pub mod once;
pub mod query;
pub mod segment;
pub mod stall;
pub mod visitor;
pub mod wait;

pub use arriving::Arriving;
pub use body::{JsonBody, ListRequest, OptionalJson};
pub use budget::Budget;
pub use csv::CsvRows;
pub use document::Document;
pub use failure::Failure;
pub use form::{FileForm, FileStream, FileUpload, FormFile};
pub use headers::{IfMatch, IfNoneMatch, Prefer, WantsPage};
pub use id::{Id, Ids};
pub use lines::Lines;
pub use may::{May, permit};
pub use once::{Once, run_once};
pub use segment::Segment;
pub use visitor::{At, RequestId};
pub use wait::WaitFor;
