//! The command line of `longshore-worker`.

use std::env;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{ArgMatches, Args as _, Command, CommandFactory, FromArgMatches, Parser};
use futures::future::BoxFuture;
use longshore_domain::job::chunk::Held;
use longshore_kernel::cause::causes;
use longshore_kernel::clock::Clock;
use longshore_kernel::config::{
    DatabaseSettings, LogSettings, ObjectStoreSettings, OutboundSettings, QuotaSettings, RedisSettings,
    TraceSettings, VaultSettings,
};
use longshore_kernel::crypto::Vault;
use longshore_kernel::database::{Database, Use};
use longshore_kernel::manual::Man;
use longshore_kernel::metrics::Metrics;
use longshore_kernel::objects::Objects;
use longshore_kernel::queue::Queues;
use longshore_kernel::quota::Quotas;
use longshore_kernel::refusals::Refusals;
use longshore_kernel::rest::Rests;
use longshore_kernel::services::Services;
use longshore_kernel::telemetry;

use crate::context::WorkerContext;
use crate::health;
use crate::isolation::{self, Isolation};
use crate::jobs::chunk;
use crate::registry::{self, WorkSettings};

/// The command that needs no settings.
const MAN: &str = "man";

/// What it is told to do.
#[derive(Debug)]
pub enum Cli {
    /// Work, without a command.
    Work(Box<Worker>),
    /// Print the manual page.
    Man(Man),
}

impl CommandFactory for Cli {
    fn command() -> Command {
        let man = Man::augment_args(Command::new(MAN)).about("Print the manual page");
        Worker::command().subcommand(man).subcommand_negates_reqs(true).args_conflicts_with_subcommands(true)
    }

    fn command_for_update() -> Command {
        Self::command()
    }
}

impl FromArgMatches for Cli {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(match matches.subcommand_matches(MAN) {
            Some(man) => Self::Man(Man::from_arg_matches(man)?),
            None => Self::Work(Box::new(Worker::from_arg_matches(matches)?)),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Parser for Cli {}

/// Longshore's worker: executes recorded jobs and delivers webhooks. Any number may run.
#[derive(Debug, Parser)]
#[command(name = "longshore-worker", version)]
pub struct Worker {
    #[command(flatten)]
    log: LogSettings,
    #[command(flatten)]
    traces: TraceSettings,
    #[command(flatten)]
    database: DatabaseSettings,
    #[command(flatten)]
    redis: RedisSettings,
    #[command(flatten)]
    vault: VaultSettings,
    #[command(flatten)]
    objects: ObjectStoreSettings,
    #[command(flatten)]
    outbound: OutboundSettings,
    #[command(flatten)]
    quotas: QuotaSettings,
    #[command(flatten)]
    work: WorkSettings,
    /// Executes one claimed chunk and exits. Workers use it for chunks that may kill their process.
    #[arg(long, hide = true, value_parser = isolation::parse)]
    isolated: Option<Held>,
    /// Address and port of the health endpoints.
    #[arg(long, env = "LONGSHORE_WORKER_BIND", default_value = "127.0.0.1:8081", help_heading = "Listening")]
    bind: SocketAddr,
}

impl Cli {
    /// Works until SIGTERM or SIGINT, then lets running work end; reports a failure on standard error.
    ///
    /// It returns a boxed future, so that this crate compiles it once and the program does not do so again.
    #[must_use]
    pub fn run(self) -> BoxFuture<'static, ExitCode> {
        Box::pin(async {
            let ran = match self {
                Self::Work(work) => work.execute().await,
                Self::Man(man) => man.write(Self::command()).map_err(anyhow::Error::from),
            };
            match ran {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    let _ = writeln!(io::stderr(), "error: {}", causes(error.as_ref()));
                    ExitCode::FAILURE
                }
            }
        })
    }
}

impl Worker {
    async fn execute(self) -> anyhow::Result<()> {
        let traces = telemetry::start(&self.log, &self.traces, "longshore-worker")?;
        let metrics = Metrics::new();
        let services = Services {
            db: Database::connect_lazy(&self.database, "longshore-worker", Use::Work)?,
            queues: Queues::open(&self.redis)?,
            vault: Vault::new(&self.vault.encryption_key)?,
            objects: Objects::open(&self.objects)?,
            clock: Clock::system(),
            outbound: self.outbound,
            quotas: Quotas::new(self.quotas, metrics.clone()),
            metrics,
            // the worker's own jobs are bounded: one of a kind for each source
            unfinished_jobs: u32::MAX,
            refusals: Refusals::default(),
            rests: Rests::default(),
        };
        let mut context = WorkerContext::new(services)?;
        if let Some(claim) = self.isolated {
            isolation::end_with_parent();
            return Ok(Box::pin(chunk::run_alone(&context, claim)).await?);
        }
        context.isolation = Some(Isolation::program(env::current_exe()?, env::args_os().skip(1).collect()));
        context.probably_delivered_days = self.work.probably_delivered_days;
        let listening = health::listen(self.bind, context.clone()).await?;
        Box::pin(registry::run(context, &self.work)).await?;
        listening.abort();
        if let Some(traces) = traces {
            traces.end().await;
        }
        Ok(())
    }
}
