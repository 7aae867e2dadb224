//! `longshore-api`: the HTTP layer, and the commands for those who run and use it.

use std::process::ExitCode;

use longshore_api::command::Cli;
use longshore_shared::platform::config;

/// Calls start on one thread and end on another: the system's allocator locks its arenas for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    config::parse::<Cli>().run().await
}
