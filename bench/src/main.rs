//! `longshore-bench`: demo data, the demo, the measurements, and a sink for webhooks. `./dev` calls it.

#![expect(clippy::print_stdout, reason = "a program for people, who read it there")]

mod command;

use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    command::Cli::parse().run().await
}
