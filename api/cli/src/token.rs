//! `longshore token`: access tokens. `longshore-api token create` makes one in the database.

use std::io::Write as _;

use clap::{Args, Subcommand};
use longshore_client::{Client, ListQuery, Uuid};
use serde_json::json;

use crate::list::Part;
use crate::output::stdout;
use crate::remote::Remote;
use crate::{Exit, output, read};

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
    #[command(flatten)]
    part: Part<100>,
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
        let query = ListQuery::new().equal("organisation", self.organisation);
        let columns = [
            ("id", "id"),
            ("name", "name"),
            ("role", "role"),
            ("organisation", "organisation"),
            ("eshop", "eshop"),
            ("expires", "expiresAt"),
            ("created by", "createdBy.name"),
            ("created", "createdAt"),
            ("last used", "lastUsedAt"),
            ("revoked", "revokedAt"),
            ("by", "revokedBy.name"),
        ];
        self.part.write(query, Client::access_tokens, &columns).await
    }
}

impl Revoke {
    async fn run(self) -> anyhow::Result<Exit> {
        self.remote.client()?.revoke_access_token(self.id).send().await?;
        if self.remote.json {
            output::json(&json!({"id": self.id, "revoked": true}))?;
        } else {
            writeln!(stdout(), "token {} is revoked", self.id)?;
        }
        Ok(Exit::Done)
    }
}
