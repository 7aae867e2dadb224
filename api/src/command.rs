//! The command line of `longshore-api`.

use std::io::Write as _;

use chrono::{DateTime, Utc};
use clap::{Args, Parser, Subcommand};
use longshore_shared::account::access::Role;
use longshore_shared::account::token::{self, NewToken};
use longshore_shared::platform::clock::Clock;
use longshore_shared::platform::config::{
    DatabaseSettings, ListenSettings, LogSettings, OutboundSettings, RedisSettings, VaultSettings,
};
use longshore_shared::platform::context::Origin;
use longshore_shared::platform::crypto::Vault;
use longshore_shared::platform::database::{self, Database};
use longshore_shared::platform::metrics::Metrics;
use longshore_shared::platform::services::Services;
use longshore_shared::platform::telemetry;
use secrecy::ExposeSecret as _;
use uuid::Uuid;

use crate::app::App;
use crate::serve;

/// Longshore's HTTP layer: validates, records and answers.
#[derive(Debug, Parser)]
#[command(name = "longshore-api", version)]
pub struct Cli {
    #[command(flatten)]
    log: LogSettings,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves the HTTP interface.
    Serve(Box<Serve>),
    /// Brings the database to the state that this version needs.
    Migrate(DatabaseSettings),
    /// Access tokens.
    #[command(subcommand)]
    Token(TokenCommand),
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
    outbound: OutboundSettings,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Creates a token and prints it, this once, on standard output.
    Create(TokenCreate),
}

#[derive(Args, Debug)]
struct TokenCreate {
    /// What it is for, for people.
    #[arg(long)]
    name: String,
    /// What it may do: superadmin, admin, user, connector or viewer.
    #[arg(long, value_parser = |text: &str| Role::parse(text).ok_or("must be superadmin, admin, user, connector or viewer"))]
    role: Role,
    /// Id of its organisation; required for admin, user and connector.
    #[arg(long)]
    organisation: Option<Uuid>,
    /// Id of the one e-shop that a connector is bound to.
    #[arg(long)]
    eshop: Option<Uuid>,
    /// When it ends, as in 2027-01-31T00:00:00Z; without it, never.
    #[arg(long)]
    expires_at: Option<DateTime<Utc>>,
    #[command(flatten)]
    database: DatabaseSettings,
}

impl Cli {
    /// Does what was asked for.
    pub async fn run(self) -> anyhow::Result<()> {
        telemetry::init(&self.log)?;
        match self.command {
            Command::Serve(settings) => settings.run().await,
            Command::Migrate(settings) => {
                database::migrate(&settings.database_url).await?;
                tracing::info!("the database is up to date");
                Ok(())
            }
            Command::Token(TokenCommand::Create(new)) => new.run().await,
        }
    }
}

impl Serve {
    async fn run(self) -> anyhow::Result<()> {
        let client = longshore_shared::job::queue::Queues::open(&self.redis)?;
        let services = Services {
            db: Database::connect_lazy(&self.database, "longshore-api")?,
            queues: client,
            vault: Vault::new(&self.vault.encryption_key)?,
            clock: Clock::system(),
            outbound: self.outbound,
            metrics: Metrics::new(),
        };
        serve::run(self.listen.bind, App::new(services)).await
    }
}

impl TokenCreate {
    async fn run(self) -> anyhow::Result<()> {
        let db = Database::connect_lazy(&self.database, "longshore-api")?;
        let new = NewToken {
            name: self.name,
            role: self.role,
            organisation: self.organisation,
            eshop: self.eshop,
            expires_at: self.expires_at,
        };
        let shown = token::create(&db, &Origin::command_line(), &new).await?;
        writeln!(std::io::stdout(), "{}", shown.token.expose_secret())?;
        Ok(())
    }
}
