//! CSV (RFC 4180), as lists are written in it (`docs/reference/lists.md#csv`).
//!
//! - [`write`](mod@write) makes lines of records and texts.

pub mod write;
