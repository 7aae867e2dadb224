//! `longshore-bench`: demo data, the demo, the measurements, and a sink for webhooks. `./dev` calls it.

use clap::Parser as _;
use longshore_bench::command::Cli;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    Cli::parse().run().await
}
