//! What the kernel promises about servers that fail, against real ones.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]

mod pooler;
mod postgres_server;
mod set_back;
mod world;
