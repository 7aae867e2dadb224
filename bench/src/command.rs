//! The command line of `longshore-bench`: one file per command.

#![expect(clippy::print_stdout, reason = "a program for people, who read it there")]

mod bare;
mod bench;
mod chaos;
mod demo;
mod environment;
mod explain;
mod seed;
mod sink;
mod with;

use clap::{Parser, Subcommand};
use futures::future::LocalBoxFuture;

/// What stands around Longshore: demo data, the demo, measurements, a sink for webhooks.
#[derive(Debug, Parser)]
#[command(name = "longshore-bench", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Creates demo data and tokens where they are not there yet, and writes them to a file.
    Seed(Box<seed::Seed>),
    /// Proves on the running service that no change is lost, whatever breaks.
    Demo(demo::Demo),
    /// Breaks everything that the service stands on, and looks whether it kept what it promised.
    Chaos(chaos::Chaos),
    /// Measures the service.
    Bench(bench::Bench),
    /// Puts the figures of two measurements side by side.
    Compare(bench::Compare),
    /// Shows how Postgres plans the usual lists and the hot statements on a million products.
    Explain(explain::Explain),
    /// The floor of something by HTTP, which the measurements start.
    #[command(hide = true)]
    Bare(bare::Bare),
    /// Receives webhooks and shows them.
    Sink(sink::Sink),
    /// Runs a command beside a service of its own.
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
                Command::Seed(seed) => seed.run().await,
                Command::Demo(demo) => demo.run().await,
                Command::Chaos(chaos) => chaos.run().await,
                Command::Bench(bench) => bench.run().await,
                Command::Compare(compare) => compare.run(),
                Command::Explain(explain) => explain.run().await,
                Command::Bare(bare) => bare.run().await,
                Command::Sink(sink) => sink.run().await,
                Command::With(with) => with.run().await,
            }
        })
    }
}
