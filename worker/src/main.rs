//! `longshore-worker`: executes recorded jobs and delivers webhooks.

use std::process::ExitCode;

use longshore_kernel::config;
use longshore_worker::command::Cli;

/// Calls start on one thread and end on another, for which the system's allocator has to lock its arenas.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    config::parse::<Cli>().run().await
}
