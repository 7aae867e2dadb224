//! `longshore-worker`: executes recorded jobs and delivers webhooks.

use clap::Parser;
use longshore_worker::command::Cli;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    Cli::parse().run().await
}
