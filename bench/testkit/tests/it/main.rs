//! Tests of the fakes over real HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]

mod receiver;
