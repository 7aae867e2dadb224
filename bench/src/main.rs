//! `longshore-bench`: the measurements and chaos. `./dev` calls it.

#![expect(clippy::print_stderr, reason = "a program for people, who read it there")]

use std::process::ExitCode;

use clap::Parser as _;
use longshore_bench::command::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The reasons without a backtrace, which would hide them.
            eprintln!("longshore-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
