//! The command line of `longshore-worker`.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Args, Parser};
use longshore_shared::catalog::product::together::Together;
use longshore_shared::job::queue::Queues;
use longshore_shared::platform::cause::causes;
use longshore_shared::platform::clock::Clock;
use longshore_shared::platform::config::{
    DatabaseSettings, LogSettings, ObjectStoreSettings, OutboundSettings, RedisSettings, TraceSettings,
    VaultSettings,
};
use longshore_shared::platform::crypto::Vault;
use longshore_shared::platform::database::Database;
use longshore_shared::platform::metrics::Metrics;
use longshore_shared::platform::objects::Objects;
use longshore_shared::platform::services::Services;
use longshore_shared::platform::telemetry;

use crate::context::WorkerContext;
use crate::{health, registry};

/// Longshore's worker: executes recorded jobs and delivers webhooks. Any number may run.
#[derive(Debug, Parser)]
#[command(name = "longshore-worker", version)]
pub struct Cli {
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
    work: WorkSettings,
    /// Address and port of the health endpoints.
    #[arg(long, env = "LONGSHORE_WORKER_BIND", default_value = "127.0.0.1:8081", help_heading = "Listening")]
    bind: SocketAddr,
}

/// How much a process does at once.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Work")]
pub struct WorkSettings {
    /// Chunks of jobs that run at once.
    #[arg(long, env = "LONGSHORE_CHUNK_CONCURRENCY", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub chunk_concurrency: u16,
    /// Partners that are called at once, for jobs that fetch or send by themselves.
    #[arg(long, env = "LONGSHORE_PARTNER_CONCURRENCY", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub partner_concurrency: u16,
    /// Webhooks that are delivered to at once. A destination that hangs keeps its place for as long as its calls may take,
    /// so there must be more places than destinations that hang.
    #[arg(long, env = "LONGSHORE_LANE_CONCURRENCY", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub lane_concurrency: u16,
}

impl Cli {
    /// Works until SIGTERM or SIGINT, then lets what runs end; says on standard error why it could not.
    pub async fn run(self) -> ExitCode {
        match self.execute().await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "error: {}", causes(error.as_ref()));
                ExitCode::FAILURE
            }
        }
    }

    async fn execute(self) -> anyhow::Result<()> {
        let traces = telemetry::start(&self.log, &self.traces, "longshore-worker")?;
        let services = Services {
            db: Database::connect_lazy(&self.database, "longshore-worker")?,
            queues: Queues::open(&self.redis)?,
            vault: Vault::new(&self.vault.encryption_key)?,
            objects: Objects::open(&self.objects)?,
            clock: Clock::system(),
            outbound: self.outbound,
            metrics: Metrics::new(),
            products: Together::default(),
        };
        let context = WorkerContext::new(services)?;
        let listening = health::listen(self.bind, context.clone()).await?;
        registry::run(context, &self.work).await?;
        listening.abort();
        if let Some(traces) = traces {
            traces.end().await;
        }
        Ok(())
    }
}
