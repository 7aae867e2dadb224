//! `longshore-api`: the HTTP layer, and the commands for operators and users.

use std::process::ExitCode;

use longshore_api::command::Cli;
use longshore_shared::kernel::config;

/// Calls start on one thread and end on another, for which the system's allocator has to lock its arenas.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    config::parse::<Cli>().run().await
}
