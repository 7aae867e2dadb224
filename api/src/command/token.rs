//! `longshore-api token`: access tokens. The first token is created in the database; others can be, too.

use std::io::{Write as _, stdout};

use clap::{Args, Subcommand};
use http::Method;
use longshore_shared::account::token::{self, NewToken};
use longshore_shared::kernel::access::Role;
use longshore_shared::kernel::clock::Clock;
use longshore_shared::kernel::config::DatabaseSettings;
use longshore_shared::kernel::context::Origin;
use longshore_shared::kernel::database::{Database, Use};
use secrecy::ExposeSecret as _;
use serde_json::json;
use uuid::Uuid;

use super::read::End;
use super::remote::{Remote, Service};
use super::{Exit, read, table};

/// What can be done with tokens.
#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Creates a token on the database, and prints it, this once, on standard output.
    Create(Create),
    /// Lists tokens, over HTTP: never themselves.
    List(List),
    /// Revokes a token, over HTTP: it opens nothing any more.
    Revoke(Revoke),
}

#[derive(Args, Debug)]
pub(super) struct Create {
    /// What it is for, for people.
    #[arg(long)]
    name: String,
    /// What it may do: superadmin, admin, user, connector or viewer.
    #[arg(long, value_parser = |text: &str| Role::parse(text).ok_or("must be superadmin, admin, user, connector or viewer"))]
    role: Role,
    /// Id of its organisation; required for admin, user and connector.
    #[arg(long, value_parser = read::id)]
    organisation: Option<Uuid>,
    /// Id of the one e-shop that a connector is bound to.
    #[arg(long, value_parser = read::id)]
    eshop: Option<Uuid>,
    /// When it ends, as in 2027-01-31T00:00:00Z, or `never`; without it, in a year.
    #[arg(long, value_parser = read::end)]
    expires_at: Option<End>,
    #[command(flatten)]
    database: DatabaseSettings,
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only of this organisation.
    #[arg(long, value_parser = read::id)]
    organisation: Option<Uuid>,
    /// How many.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// How many to leave out.
    #[arg(long, default_value_t = 0)]
    offset: u32,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Revoke {
    /// Id of the token, as `token list` tells it.
    #[arg(value_parser = read::id)]
    id: Uuid,
    #[command(flatten)]
    remote: Remote,
}

impl TokenCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Create(new) => new.run().await,
            Self::List(list) => list.run().await,
            Self::Revoke(revoke) => revoke.run().await,
        }
    }
}

impl Create {
    async fn run(self) -> anyhow::Result<Exit> {
        let db = Database::connect_lazy(&self.database, "longshore-api", Use::Work)?;
        let new = NewToken {
            name: self.name,
            role: self.role,
            organisation: self.organisation,
            eshop: self.eshop,
            expires_at: match self.expires_at {
                None => Some(token::in_a_year(Clock::system().now())),
                Some(End::Never) => None,
                Some(End::At(at)) => Some(at),
            },
        };
        let shown = token::create(&db, &Origin::command_line(), &new).await?;
        writeln!(stdout(), "{}", shown.token.expose_secret())?;
        Ok(Exit::Done)
    }
}

impl List {
    async fn run(self) -> anyhow::Result<Exit> {
        let criteria = match self.organisation {
            Some(organisation) => json!({"organisation": {"eq": organisation}}),
            None => json!({}),
        };
        let body = json!({"criteria": criteria, "limit": self.limit, "offset": self.offset});
        let answer = Service::new(&self.remote)?.post("/api/access-token/list", body).await?;
        if self.remote.json {
            writeln!(stdout(), "{answer}")?;
            return Ok(Exit::Done);
        }
        let paths = [
            "id",
            "name",
            "role",
            "organisation",
            "eshop",
            "expiresAt",
            "createdBy.name",
            "createdAt",
            "lastUsedAt",
        ];
        let heads =
            ["id", "name", "role", "organisation", "eshop", "expires", "created by", "created", "last used"];
        table::write(&mut stdout().lock(), &heads, &table::rows(&answer, &paths))?;
        Ok(Exit::Done)
    }
}

impl Revoke {
    async fn run(self) -> anyhow::Result<Exit> {
        let path = format!("/api/access-token/{}", self.id);
        Service::new(&self.remote)?.call(Method::DELETE, &path, None).await?;
        if self.remote.json {
            writeln!(stdout(), "{}", json!({"id": self.id, "revoked": true}))?;
        } else {
            writeln!(stdout(), "token {} is revoked", self.id)?;
        }
        Ok(Exit::Done)
    }
}
