//! `longshore token`: access tokens. `longshore-api token create` makes one in the database.

use std::io::{Write as _, stdout};

use clap::{Args, Subcommand};
use longshore_client::{ListQuery, Uuid};
use serde_json::json;

use crate::remote::{self, Remote};
use crate::{Exit, read, table};

/// What can be done with tokens.
#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// List access tokens (never their values).
    List(List),
    /// Revoke an access token.
    Revoke(Revoke),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only tokens of this organisation.
    #[arg(long, value_parser = read::id)]
    organisation: Option<Uuid>,
    /// Number of tokens to list.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Number of tokens to skip.
    #[arg(long, default_value_t = 0)]
    offset: u32,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Revoke {
    /// Id of the token, as `token list` shows it.
    #[arg(value_parser = read::id)]
    id: Uuid,
    #[command(flatten)]
    remote: Remote,
}

impl TokenCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run().await,
            Self::Revoke(revoke) => revoke.run().await,
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<Exit> {
        let mut query = ListQuery::new().limit(self.limit).offset(self.offset.into());
        if let Some(organisation) = self.organisation {
            query = query.filter("organisation", "eq", organisation);
        }
        let answer = remote::json(&self.remote.client()?.access_tokens(&query).answer().await?)?;
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
        table::write(&mut stdout().lock(), &heads, &table::rows(&answer["results"], &paths))?;
        Ok(Exit::Done)
    }
}

impl Revoke {
    async fn run(self) -> anyhow::Result<Exit> {
        self.remote.client()?.revoke_access_token(self.id).send().await?;
        if self.remote.json {
            writeln!(stdout(), "{}", json!({"id": self.id, "revoked": true}))?;
        } else {
            writeln!(stdout(), "token {} is revoked", self.id)?;
        }
        Ok(Exit::Done)
    }
}
