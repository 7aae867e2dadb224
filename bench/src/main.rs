//! `longshore-bench`: demo data, the demo, the measurements, a sink for webhooks, and a warehouse. `./dev` calls it.

use clap::Parser as _;
use longshore_bench::command::Cli;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    Cli::parse().run().await
}
