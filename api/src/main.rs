//! `longshore-api`: the HTTP layer, and the commands that speak to the database.

use clap::Parser;
use longshore_api::command::Cli;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    Cli::parse().run().await
}
