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
mod wms;

use clap::{Parser, Subcommand};
use futures::future::LocalBoxFuture;

/// Tools for Longshore: demo data, the demo, measurements, chaos, a sink for webhooks, a warehouse.
#[derive(Debug, Parser)]
#[command(name = "longshore-bench", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Creates missing demo data and tokens, and writes them to a file.
    Seed(Box<seed::Seed>),
    /// Shows with the running service that no change is lost.
    Demo(demo::Demo),
    /// Breaks every dependency of the service, and checks that each guarantee held.
    Chaos(chaos::Chaos),
    /// Measures the service.
    Bench(bench::Bench),
    /// Compares the figures of two measurements.
    Compare(bench::Compare),
    /// Shows how Postgres plans the usual lists and the hot statements on a million products.
    Explain(explain::Explain),
    /// Serves the floor of a measurement over HTTP; started by the measurements.
    #[command(hide = true)]
    Bare(bare::Bare),
    /// Receives webhooks and shows them.
    Sink(sink::Sink),
    /// Plays a warehouse: takes orders, shows each call, and reports what it does.
    Wms(wms::Warehouse),
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
                Command::Seed(seed) => seed.run().await,
                Command::Demo(demo) => demo.run().await,
                Command::Chaos(chaos) => chaos.run().await,
                Command::Bench(bench) => bench.run().await,
                Command::Compare(compare) => compare.run(),
                Command::Explain(explain) => explain.run().await,
                Command::Bare(bare) => bare.run().await,
                Command::Sink(sink) => sink.run().await,
                Command::Wms(wms) => wms.run().await,
                Command::With(with) => with.run().await,
            }
        })
    }
}
