//! CSV, the text form of spreadsheets (RFC 4180).
//!
//! - [`read`] takes what partners send apart (`docs/reference/syncs.md#csv`);
//! - [`write`](mod@write) makes lines of records and texts (`docs/reference/lists.md#csv`).

pub mod read;
pub mod write;
