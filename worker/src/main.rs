//! `longshore-worker`: executes recorded jobs and delivers webhooks.

use std::process::ExitCode;

use clap::Parser;
use longshore_worker::command::Cli;

/// Calls start on one thread and end on another: the system's allocator locks its arenas for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    Cli::parse().run().await
}
