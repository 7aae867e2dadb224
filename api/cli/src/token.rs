//! `longshore token`: access tokens. `longshore-api token create` makes one in the database.

use std::io::Write as _;

use clap::{Args, Subcommand};
use longshore_client::{Client, ListQuery};
use serde_json::json;

use crate::find::Named;
use crate::list::Part;
use crate::output::stdout;
use crate::remote::Remote;
use crate::{Exit, output};

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
    /// Only tokens of this organisation, by its id or name.
    #[arg(long, value_parser = Named::organisation)]
    organisation: Option<Named>,
    #[command(flatten)]
    part: Part<100>,
}

#[derive(Args, Debug)]
pub(super) struct Revoke {
    /// Id or name of the token.
    #[arg(value_parser = Named::token)]
    access_token: Named,
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
        let organisation = Named::id_of(self.organisation.as_ref(), &self.part.client()?).await?;
        let mut query = ListQuery::new().equal("organisation", organisation);
        // a table has names; JSON and CSV are the record
        if !self.part.is_as_sent() {
            query = query.nested();
        }
        let columns = [
            ("id", "id"),
            ("name", "name"),
            ("role", "role"),
            ("organisation", "organisation.name"),
            ("e-shop", "eshop.name"),
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
        let client = self.remote.client()?;
        let id = self.access_token.id(&client).await?;
        client.revoke_access_token(id).send().await?;
        if self.remote.json {
            output::json(&json!({"id": id, "revoked": true}))?;
        } else {
            writeln!(stdout(), "token {id} is revoked")?;
        }
        Ok(Exit::Done)
    }
}
