//! The proof of the main guarantee with processes that are killed.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]

mod command;
mod csv;
mod fetch;
mod proof;
mod trace;
