//! `longshore-api token`: the first access token, created in the database. `longshore token` lists and revokes them.

use std::io::{Write as _, stdout};

use clap::{Args, Subcommand};
use longshore_domain::account::token::{self, NewToken};
use longshore_kernel::access::Role;
use longshore_kernel::clock::Clock;
use longshore_kernel::config::DatabaseSettings;
use longshore_kernel::context::Origin;
use longshore_kernel::database::{Database, Use};
use longshore_kernel::ids::{EshopId, OrganisationId, WmsId};
use secrecy::ExposeSecret as _;

use super::read::End;
use super::{Exit, read};

/// What can be done with tokens.
#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Create an access token in the database, and print it on standard output; it is shown only once.
    Create(Create),
}

#[derive(Args, Debug)]
pub(super) struct Create {
    /// What it is for.
    #[arg(long)]
    name: String,
    /// What it may do: superadmin, admin, user, connector, viewer or warehouse.
    #[arg(long, value_parser = |text: &str| Role::parse(text).ok_or("must be superadmin, admin, user, connector, viewer or warehouse"))]
    role: Role,
    /// Id of its organisation; required for admin, user and connector.
    #[arg(long, value_parser = read::id::<OrganisationId>)]
    organisation: Option<OrganisationId>,
    /// Id of the e-shop that a connector is bound to.
    #[arg(long, value_parser = read::id::<EshopId>)]
    eshop: Option<EshopId>,
    /// Id of the wms that a warehouse is the program of; its organisation is that of the wms.
    #[arg(long, value_parser = read::id::<WmsId>)]
    wms: Option<WmsId>,
    /// When it ends, as in 2027-01-31T00:00:00Z, or `never`; by default, in a year.
    #[arg(long, value_parser = read::end)]
    expires_at: Option<End>,
    #[command(flatten)]
    database: DatabaseSettings,
}

impl TokenCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Create(new) => new.run().await,
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
            wms: self.wms,
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
