//! `longshore-api`: the HTTP layer, and the commands for those who run and use it.

use std::process::ExitCode;

use clap::Parser;
use longshore_api::command::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    Cli::parse().run().await
}
