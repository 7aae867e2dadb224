//! Tests of the HTTP layer against real Postgres and Redis.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]
#![expect(unreachable_pub, reason = "the support is shared by the modules of this one binary")]

mod errors;
mod job;
mod list;
mod metrics;
mod product;
mod support;
mod sync;
mod webhook;
