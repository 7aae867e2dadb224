//! The command line of `longshore-api`.

use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use chrono::{DateTime, Utc};
use clap::{Args, Parser, Subcommand};
use longshore_shared::account::access::Role;
use longshore_shared::account::admin::{self, NewAdmin};
use longshore_shared::account::token::{self, NewToken};
use longshore_shared::platform::clock::Clock;
use longshore_shared::platform::config::{
    DatabaseSettings, LimitSettings, ListenSettings, LogSettings, ObjectStoreSettings, OutboundSettings,
    RedisSettings, VaultSettings,
};
use longshore_shared::platform::context::Origin;
use longshore_shared::platform::crypto::Vault;
use longshore_shared::platform::database::{self, Database};
use longshore_shared::platform::metrics::Metrics;
use longshore_shared::platform::objects::Objects;
use longshore_shared::platform::proxy::Proxies;
use longshore_shared::platform::services::Services;
use longshore_shared::platform::telemetry;
use longshore_shared::rotation;
use secrecy::{ExposeSecret as _, SecretString};
use uuid::Uuid;

use crate::app::App;
use crate::limits::Limits;
use crate::{openapi, serve};

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
    /// Prints the interface's description (OpenAPI 3.1) on standard output.
    Openapi,
    /// Access tokens.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Seals every stored secret by the first of the configured keys; the others may be taken away afterwards. It can be
    /// run beside a running service, and again where it broke off.
    RotateKeys(RotateKeys),
    /// Accounts of those who run the service.
    #[command(subcommand)]
    Admin(AdminCommand),
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
    limits: LimitSettings,
}

#[derive(Args, Debug)]
struct RotateKeys {
    #[command(flatten)]
    database: DatabaseSettings,
    #[command(flatten)]
    vault: VaultSettings,
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

#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// Creates an admin and prints its id. The password is read from a file, or from standard input.
    Create(AdminCreate),
}

#[derive(Args, Debug)]
struct AdminCreate {
    /// Address, which is the login.
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
    /// Ids of organisations that it is added to; separated by commas.
    #[arg(long, value_delimiter = ',')]
    organisations: Vec<Uuid>,
    /// File whose first line is the password; without it, that is the first line of standard input.
    #[arg(long)]
    password_file: Option<PathBuf>,
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
            Command::Openapi => Ok(std::io::stdout().write_all(openapi::text().as_bytes())?),
            Command::Token(TokenCommand::Create(new)) => new.run().await,
            Command::RotateKeys(settings) => settings.run().await,
            Command::Admin(AdminCommand::Create(new)) => new.run().await,
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
            objects: Objects::open(&self.objects)?,
            clock: Clock::system(),
            outbound: self.outbound,
            metrics: Metrics::new(),
        };
        let limits = Limits::new(&self.limits, &services.queues)?;
        let proxies = Proxies::new(&self.listen.trusted_proxies);
        // a job that is cancelled ends here
        tokio::spawn(services.metrics.activity().clone().keep(services.db.main.clone()));
        serve::run(self.listen.bind, App { proxies, ..App::with(services, limits) }).await
    }
}

impl RotateKeys {
    async fn run(self) -> anyhow::Result<()> {
        let db = Database::connect_lazy(&self.database, "longshore-api")?;
        let vault = Vault::new(&self.vault.encryption_key)?;
        let rotated = rotation::rotate(&db, &vault).await?;
        writeln!(std::io::stdout(), "{} records were sealed by the newest key", rotated.resealed)?;
        ensure!(
            rotated.unreadable == 0,
            "{} records cannot be read by any of the keys, and stay as they are; the log names them",
            rotated.unreadable,
        );
        Ok(())
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

impl AdminCreate {
    async fn run(self) -> anyhow::Result<()> {
        let password = match &self.password_file {
            Some(path) => {
                first_line(BufReader::new(File::open(path).with_context(|| path.display().to_string())?))?
            }
            None => first_line(std::io::stdin().lock())?,
        };
        let db = Database::connect_lazy(&self.database, "longshore-api")?;
        let new = NewAdmin {
            email: self.email,
            first_name: self.first_name,
            last_name: self.last_name,
            role: self.role,
            password,
            organisations: self.organisations,
        };
        let id = admin::create_first(&db, &Origin::command_line(), new).await?;
        writeln!(std::io::stdout(), "{id}")?;
        Ok(())
    }
}

fn first_line(mut input: impl BufRead) -> anyhow::Result<SecretString> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).into())
}
