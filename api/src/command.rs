//! The command line of `longshore-api`: the server, and commands that use the database. Commands that use HTTP only
//! are those of `longshore`, in `api/cli`.
//!
//! The exit status shows how a command ended ([`Exit`]). Its output goes to standard output, everything else
//! to standard error.

mod completions;
mod doctor;
mod moved;
mod read;
mod restored;
mod token;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use futures::future::LocalBoxFuture;
use longshore_domain::account::admin::{self, NewAdmin};
use longshore_http::app::{App, Surroundings};
use longshore_http::limits::Limits;
use longshore_kernel::access::Role;
use longshore_kernel::cause::causes;
use longshore_kernel::clock::Clock;
use longshore_kernel::config::{
    AccessSettings, DatabaseSettings, LimitSettings, ListenSettings, LogSettings, ObjectStoreSettings,
    OutboundSettings, QuotaSettings, RedisSettings, TraceSettings, VaultSettings,
};
use longshore_kernel::context::Origin;
use longshore_kernel::crypto::Vault;
use longshore_kernel::database::{Database, Use};
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::manual::Man;
use longshore_kernel::metrics::Metrics;
use longshore_kernel::migration;
use longshore_kernel::objects::Objects;
use longshore_kernel::pooler;
use longshore_kernel::proxy::Proxies;
use longshore_kernel::quota::Quotas;
use longshore_kernel::refusals::Refusals;
use longshore_kernel::rest::Rests;
use longshore_kernel::services::Services;
use longshore_kernel::set_back;
use longshore_kernel::telemetry;
use longshore_operate::rotation;
use secrecy::SecretString;

pub use self::moved::moved;
use crate::{openapi, serve};

/// Run Longshore's HTTP API, and set it up.
#[derive(Debug, Parser)]
#[command(name = "longshore-api", version)]
#[command(
    after_help = "To control a running service (jobs, syncs, webhooks, access tokens), use `longshore`."
)]
pub struct Cli {
    #[command(flatten)]
    log: LogSettings,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the HTTP API.
    Serve(Box<Serve>),
    /// Migrate the database to this version.
    Migrate(DatabaseSettings),
    /// Print what PgBouncer needs in its configuration, for the Postgres that DATABASE_URL names.
    Pooler(DatabaseSettings),
    /// Print the description of the API (OpenAPI 3.1) on standard output.
    Openapi,
    /// Create access tokens in the database.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Check an installation: settings, Postgres, Redis, secrets, objects and workers; show what is wrong, and how to
    /// repair it.
    Doctor(Box<doctor::Doctor>),
    /// Encrypt every stored secret with the first of the configured keys. Afterwards the other keys can be removed. The
    /// service may run meanwhile. It is safe to interrupt and run again.
    RotateKeys(RotateKeys),
    /// Mend what a set-back of Postgres (a restore, a failover that lost commits) left behind, as the login that migrates;
    /// until then nothing is handed over to warehouses. The service may run meanwhile. It is safe to interrupt and run again.
    Restored(restored::Restored),
    /// Create admin accounts in the database.
    #[command(subcommand)]
    Admin(AdminCommand),
    /// Print completions for a shell.
    Completions(completions::Completions),
    /// Print the manual page.
    Man(Man),
}

/// How a command ended: its exit status. The argument parser itself exits with 2 for wrong usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Done = 0,
    /// The command ran and found a failure: a fault found by `doctor`, or an unexpected error.
    Failed = 1,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[derive(Args, Debug)]
struct Serve {
    #[command(flatten)]
    listen: ListenSettings,
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
    access: AccessSettings,
    #[command(flatten)]
    limits: LimitSettings,
    #[command(flatten)]
    quotas: QuotaSettings,
    #[command(flatten)]
    traces: TraceSettings,
}

#[derive(Args, Debug)]
struct RotateKeys {
    #[command(flatten)]
    database: DatabaseSettings,
    #[command(flatten)]
    vault: VaultSettings,
}

#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// Create an admin account, and print its id. The password is read from a file, or from standard input.
    Create(AdminCreate),
}

#[derive(Args, Debug)]
struct AdminCreate {
    /// Email address, which is the login.
    #[arg(long)]
    email: String,
    /// What it may do: superadmin, admin or viewer.
    #[arg(long, value_parser = |text: &str| Role::parse(text)
        .filter(|role| matches!(role, Role::Superadmin | Role::Admin | Role::Viewer))
        .ok_or("must be superadmin, admin or viewer"))]
    role: Role,
    /// First name.
    #[arg(long, default_value = "First")]
    first_name: String,
    /// Last name.
    #[arg(long, default_value = "Admin")]
    last_name: String,
    /// Ids of its organisations, separated by commas.
    #[arg(long, value_delimiter = ',')]
    organisations: Vec<OrganisationId>,
    /// File whose first line is the password; by default, it is the first line of standard input.
    #[arg(long)]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    database: DatabaseSettings,
}

/// Refuses to do by a pooler what needs a session of its own, or is about Postgres itself.
fn must_be_postgres(settings: &DatabaseSettings) -> anyhow::Result<()> {
    ensure!(
        !settings.database_pooled,
        "this command needs Postgres itself: let DATABASE_URL name it, and LONGSHORE_DATABASE_POOLED be false"
    );
    Ok(())
}

impl Cli {
    /// Runs the command; reports a failure on standard error.
    ///
    /// It returns a boxed future, so that this crate compiles it once and the program does not do so again.
    #[must_use]
    pub fn run(self) -> LocalBoxFuture<'static, ExitCode> {
        Box::pin(async {
            let ended = self.execute().await.unwrap_or_else(|error| {
                // the reader of the pipe has closed it
                let is_pipe = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
                if error.downcast_ref().is_some_and(is_pipe) {
                    return Exit::Done;
                }
                let _ = writeln!(io::stderr(), "error: {}", causes(error.as_ref()));
                Exit::Failed
            });
            ended.into()
        })
    }

    async fn execute(self) -> anyhow::Result<Exit> {
        // only the server takes part in traces
        if !matches!(self.command, Command::Serve(_)) {
            telemetry::init(&self.log)?;
        }
        match self.command {
            Command::Serve(settings) => settings.run(&self.log).await,
            Command::Migrate(settings) => {
                must_be_postgres(&settings)?;
                migration::migrate(&settings.database_url).await?;
                tracing::info!("the database is up to date");
                Ok(Exit::Done)
            }
            Command::Pooler(settings) => {
                must_be_postgres(&settings)?;
                io::stdout().write_all(pooler::file(&settings)?.as_bytes())?;
                Ok(Exit::Done)
            }
            Command::Openapi => {
                io::stdout().write_all(openapi::text().as_bytes())?;
                Ok(Exit::Done)
            }
            Command::Token(command) => command.run().await,
            Command::Doctor(doctor) => doctor.run().await,
            Command::RotateKeys(settings) => settings.run().await,
            Command::Restored(restored) => restored.run().await,
            Command::Admin(AdminCommand::Create(new)) => new.run().await,
            Command::Completions(completions) => completions.run(),
            Command::Man(man) => {
                man.write(Cli::command())?;
                Ok(Exit::Done)
            }
        }
    }
}

impl Serve {
    async fn run(self, log: &LogSettings) -> anyhow::Result<Exit> {
        let traces = telemetry::start(log, &self.traces, "longshore-api")?;
        let client = longshore_kernel::queue::Queues::open(&self.redis)?;
        let metrics = Metrics::new();
        let services = Services {
            db: Database::connect_lazy(&self.database, "longshore-api", Use::Requests)?,
            queues: client,
            vault: Vault::new(&self.vault.encryption_key)?,
            objects: Objects::open(&self.objects)?,
            clock: Clock::system(),
            outbound: self.outbound,
            quotas: Quotas::new(self.quotas, metrics.clone()),
            metrics,
            unfinished_jobs: self.limits.unfinished_jobs,
            refusals: Refusals::default(),
            rests: Rests::default(),
        };
        // so that the first connection to Postgres is compared with it
        set_back::recall(&services.db, &services.queues).await;
        let limits = Limits::new(&self.limits, &services.queues);
        let proxies = Proxies::new(&self.listen.trusted_proxies);
        let surroundings = Surroundings {
            proxies,
            origins: self.listen.cors_origins,
            requires_second_factor: self.access.require_second_factor,
        };
        // cancelled jobs end in this process, so it records activity, too
        tokio::spawn(services.metrics.activity().clone().keep(services.db.main.of_work()));
        tokio::spawn(services.refusals.clone().keep(services.db.main.of_work()));
        let (refusals, db) = (services.refusals.clone(), services.db.main.of_work());
        let drain = Duration::from_secs(self.listen.drain_seconds);
        let served = serve::run(self.listen.bind, drain, App::among(surroundings, services, limits)).await;
        // the refusals of the last minute, which are also in the log
        let _ = refusals.write(&db).await;
        if let Some(traces) = traces {
            traces.end().await;
        }
        served.map(|()| Exit::Done)
    }
}

impl RotateKeys {
    async fn run(self) -> anyhow::Result<Exit> {
        must_be_postgres(&self.database)?;
        let db = Database::connect_lazy(&self.database, "longshore-api", Use::Work)?;
        let vault = Vault::new(&self.vault.encryption_key)?;
        let rotated = rotation::rotate(&db, &vault).await?;
        writeln!(io::stdout(), "{} records were sealed by the newest key", rotated.resealed)?;
        ensure!(
            rotated.unreadable == 0,
            "{} records cannot be read by any of the keys, and stay as they are; the log names them",
            rotated.unreadable,
        );
        Ok(Exit::Done)
    }
}

impl AdminCreate {
    async fn run(self) -> anyhow::Result<Exit> {
        let password = match &self.password_file {
            Some(path) => {
                first_line(BufReader::new(File::open(path).with_context(|| path.display().to_string())?))?
            }
            None => first_line(io::stdin().lock())?,
        };
        let db = Database::connect_lazy(&self.database, "longshore-api", Use::Work)?;
        let new = NewAdmin {
            email: self.email,
            first_name: self.first_name,
            last_name: self.last_name,
            role: self.role,
            password,
            organisations: self.organisations,
        };
        let id = admin::create_first(&db, &Origin::command_line(), new).await?;
        writeln!(io::stdout(), "{id}")?;
        Ok(Exit::Done)
    }
}

fn first_line(mut input: impl BufRead) -> anyhow::Result<SecretString> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).into())
}
