//! `longshore-demo`: demo data, the demo, a sink for webhooks, and a warehouse. `./dev` calls it.

#![expect(clippy::print_stderr, reason = "a program for people, who read it there")]

use std::process::ExitCode;

use clap::Parser as _;
use longshore_demo::command::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The reasons without a backtrace, which would hide them.
            eprintln!("longshore-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}
