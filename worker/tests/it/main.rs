//! The worker against real services: one binary, a module for each room.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]
#![expect(unreachable_pub, reason = "the support is shared by the modules of this one binary")]

mod job;
mod outbound;
mod partner;
mod queue;
mod webhook;
