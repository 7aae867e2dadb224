//! The command line of `longshore-bench`: one file per command.

#![expect(clippy::print_stdout, reason = "a program for people, who read it there")]

mod bare;
mod bench;
mod chaos;
mod count;
mod explain;
mod upgrade;
mod with;

use clap::{Parser, Subcommand};
use futures::future::LocalBoxFuture;

/// Tools for Longshore: measurements and chaos.
#[derive(Debug, Parser)]
#[command(name = "longshore-bench", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Breaks every dependency of the service, and checks that each guarantee held.
    Chaos(chaos::Chaos),
    /// Measures the service.
    Bench(bench::Bench),
    /// Counts the instructions that Postgres executes for a change.
    Count(count::Count),
    /// Compares the figures of two measurements.
    Compare(bench::Compare),
    /// Shows how Postgres plans the usual lists and the hot statements on a million products.
    Explain(explain::Explain),
    /// Serves the floor of a measurement over HTTP; started by the measurements.
    #[command(hide = true)]
    Bare(bare::Bare),
    /// Upgrades a service under load, rolls it back, and checks that nothing promised was lost.
    Upgrade(upgrade::Upgrade),
    /// Runs a command with a service of its own.
    With(with::With),
}

impl Cli {
    /// Runs the command.
    ///
    /// It returns a boxed future, so that this crate compiles it once and the program does not do so again.
    #[must_use]
    pub fn run(self) -> LocalBoxFuture<'static, anyhow::Result<()>> {
        Box::pin(async {
            match self.command {
                Command::Chaos(chaos) => chaos.run().await,
                Command::Bench(bench) => bench.run().await,
                Command::Count(count) => count.run().await,
                Command::Compare(compare) => compare.run(),
                Command::Explain(explain) => explain.run().await,
                Command::Bare(bare) => bare.run().await,
                Command::Upgrade(upgrade) => upgrade.run().await,
                Command::With(with) => with.run().await,
            }
        })
    }
}
