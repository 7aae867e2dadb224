//! The worker with real services: one binary with a module for each area.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]
#![expect(unreachable_pub, reason = "the support is shared by the modules of this one binary")]

mod expedition;
mod handover;
mod health;
mod job;
mod manager;
mod outbound;
mod partner;
mod program;
mod queue;
mod webhook;
