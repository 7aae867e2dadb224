//! `longshore`: the command line for operators, partners and scripts. It uses the HTTP API only, through
//! `longshore-client`, so it runs wherever the service can be reached.
//!
//! The exit status shows how a command ended ([`Exit`]). Its output goes to standard output, everything else
//! to standard error. Another command is a file beside [`job`].

mod attention;
mod audit;
mod delivery;
mod eshop;
mod event;
mod find;
mod job;
mod list;
mod login;
mod manual;
mod order;
mod output;
mod profile;
mod queue;
mod read;
mod remote;
mod sync;
mod table;
mod token;
mod webhook;
mod wms;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use longshore_client::Error;

/// What all commands have in common.
const IN_COMMON: &str = "\
Results go to standard output, errors and progress to standard error. NO_COLOR=1 turns colours off.

Exit status:
  0  success
  1  a job failed, a test did not arrive, a WMS breaks a rule, or an unexpected error
  2  wrong usage
  3  the service refused the request
  4  the service or the WMS cannot be reached, or failed
  5  the job succeeded, and refused some of its items";

/// Control Longshore, the fulfillment service, over its HTTP API.
#[derive(Debug, Parser)]
#[command(name = "longshore", version, after_help = IN_COMMON)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List, follow, cancel and retry jobs.
    #[command(subcommand)]
    Job(job::JobCommand),
    /// List, send, cancel and import orders.
    #[command(subcommand)]
    Order(order::OrderCommand),
    /// Find anything by what people call it: an order number, a SKU, a name, a host, an id.
    Find(find::Find),
    /// Send a file of rows.
    #[command(subcommand)]
    Sync(sync::SyncCommand),
    /// Create, list, test, recover and follow webhooks.
    #[command(subcommand)]
    Webhook(webhook::WebhookCommand),
    /// Create readers of events, and read.
    #[command(subcommand)]
    Event(event::EventCommand),
    /// List, show and resend deliveries.
    #[command(subcommand)]
    Delivery(delivery::DeliveryCommand),
    /// List and show e-shops.
    #[command(subcommand)]
    Eshop(eshop::EshopCommand),
    /// List, pause and resume the queues of the workers.
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// List what needs attention, acknowledge it, and mute it.
    #[command(subcommand)]
    Attention(attention::AttentionCommand),
    /// List who changed what, the newest first.
    Audit(audit::Audit),
    /// List and revoke access tokens.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Keep the URL and the token of a service as a profile, in a file that only you can read.
    Login(login::Login),
    /// Remove a profile.
    Logout(login::Logout),
    /// Check the system of a warehouse.
    #[command(subcommand)]
    Wms(wms::WmsCommand),
    /// Print completions for a shell.
    Completions(manual::Completions),
    /// Print the manual page.
    Man(manual::Man),
}

/// Wrong usage that the argument parser cannot see.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// What a command names is not there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unknown(String);

/// How a command ended: its exit status. The argument parser itself exits with 2 for wrong usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    /// Success.
    Done = 0,
    /// The command ran and found a failure: a failed or cancelled job, a test that did not arrive, a WMS that
    /// breaks a rule, or an unexpected error.
    Failed = 1,
    /// The command was used wrongly.
    Usage = 2,
    /// The service refused the request: invalid, not allowed or not found (4xx); or no order has that number.
    Refused = 3,
    /// The service did not answer, or failed itself (5xx); or a WMS cannot be reached.
    Unreachable = 4,
    /// The job succeeded, but refused some of its rows; or an order was not sent, since it is incorrect.
    Refusals = 5,
}

impl Exit {
    fn of(error: &anyhow::Error) -> Self {
        if error.is::<Usage>() {
            return Self::Usage;
        }
        if error.is::<Unknown>() {
            return Self::Refused;
        }
        if error.is::<wms::Unreachable>() {
            return Self::Unreachable;
        }
        match error.downcast_ref::<Error>() {
            Some(error) if error.is_refusal() => Self::Refused,
            None | Some(Error::Rows(_) | Error::Invalid { .. }) => Self::Failed,
            Some(_) => Self::Unreachable,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Command {
    async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Job(command) => command.run().await,
            Self::Order(command) => command.run().await,
            Self::Find(find) => find.run().await,
            Self::Sync(command) => command.run().await,
            Self::Webhook(command) => command.run().await,
            Self::Event(command) => command.run().await,
            Self::Delivery(command) => command.run().await,
            Self::Eshop(command) => command.run().await,
            Self::Queue(command) => command.run().await,
            Self::Attention(command) => command.run().await,
            Self::Audit(command) => command.run().await,
            Self::Token(command) => command.run().await,
            Self::Login(command) => command.run().await,
            Self::Logout(command) => command.run(),
            Self::Wms(command) => command.run().await,
            Self::Completions(completions) => completions.run(),
            Self::Man(man) => man.run(),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let command = remote::with_token_from_file(Cli::command()).unwrap_or_else(|error| error.exit());
    let cli = Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit());
    let ended = cli.command.run().await.unwrap_or_else(|error| {
        // what never ends by itself ends when the reader of its pipe has closed it
        let is_pipe = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
        if error.downcast_ref().is_some_and(is_pipe) {
            return Exit::Done;
        }
        let _ = writeln!(io::stderr(), "error: {}", remote::reason(&error));
        Exit::of(&error)
    });
    ended.into()
}
