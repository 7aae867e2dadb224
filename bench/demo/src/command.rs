//! The command line of `longshore-demo`: one file per command.

#![expect(clippy::print_stdout, reason = "a program for people, who read it there")]

mod demo;
mod seed;
mod sink;
mod wms;

use clap::{Parser, Subcommand};
use futures::future::LocalBoxFuture;

/// Demo data and the demo for Longshore, a sink for webhooks, a warehouse.
#[derive(Debug, Parser)]
#[command(name = "longshore-demo", version)]
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
    /// Receives webhooks and shows them.
    Sink(sink::Sink),
    /// Plays a warehouse: takes orders, shows each call, and reports what it does.
    Wms(wms::Warehouse),
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
                Command::Sink(sink) => sink.run().await,
                Command::Wms(wms) => wms.run().await,
            }
        })
    }
}
