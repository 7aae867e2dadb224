//! `longshore-api`: the HTTP layer, and the commands for those who run and use it.

use std::process::ExitCode;

use clap::Parser;
use longshore_api::command::Cli;

/// Calls start on one thread and end on another: the system's allocator locks its arenas for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    Cli::parse().run().await
}
