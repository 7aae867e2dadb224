//! `longshore eshop`: e-shops.

use std::io::Write as _;

use clap::{Args, Subcommand};
use longshore_client::{Client, Job, ListQuery, Order};

use crate::find::Named;
use crate::job::followed;
use crate::list::Part;
use crate::output::stdout;
use crate::remote::{self, Remote};
use crate::{Exit, output, table};

/// What can be done with e-shops.
#[derive(Debug, Subcommand)]
pub(super) enum EshopCommand {
    /// List e-shops, by name.
    List(List),
    /// Show an e-shop.
    Show(Show),
    /// Test the connection to the partner of an e-shop, and show the result, which is also the exit status; nothing is changed.
    Test(Test),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only e-shops whose name contains this.
    #[arg(long)]
    name: Option<String>,
    /// Only e-shops of this organisation, by its id or name.
    #[arg(long, value_parser = Named::organisation)]
    organisation: Option<Named>,
    #[command(flatten)]
    part: Part<100>,
}

#[derive(Args, Debug)]
pub(super) struct Show {
    /// Id or name of the e-shop.
    #[arg(value_parser = Named::eshop)]
    eshop: Named,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Test {
    /// Id or name of the e-shop.
    #[arg(value_parser = Named::eshop)]
    eshop: Named,
    /// End as soon as the job is accepted, and print its id.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    remote: Remote,
}

impl EshopCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run().await,
            Self::Show(show) => show.run().await,
            Self::Test(Test { eshop, detach, remote }) => {
                let client = remote.client()?;
                let answer = client.test_integration(eshop.id(&client).await?).answer().await?;
                let job: Job = answer.read()?;
                followed(&client, &answer, job.id, detach, remote.json).await
            }
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<Exit> {
        let organisation = Named::id_of(self.organisation.as_ref(), &self.part.client()?).await?;
        let mut query = ListQuery::new().equal("organisation", organisation).sort("name", Order::Ascending);
        // a table has the name of the organisation; JSON and CSV are the record
        if !self.part.is_as_sent() {
            query = query.nested();
        }
        if let Some(name) = &self.name {
            query = query.filter("name", "like", name);
        }
        let columns = [
            ("id", "id"),
            ("name", "name"),
            ("organisation", "organisation.name"),
            ("active", "active"),
            ("partner", "integrationType"),
            ("created", "createdAt"),
        ];
        self.part.write(query, Client::eshops, &columns).await
    }
}

impl Show {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.remote.client()?;
        let eshop = remote::json(&client.eshop(self.eshop.id(&client).await?).answer().await?)?;
        let mut out = stdout();
        if self.remote.json {
            output::json(&eshop)?;
            return Ok(Exit::Done);
        }
        for (name, path) in [
            ("e-shop", "id"),
            ("name", "name"),
            ("organisation", "organisation"),
            ("active", "active"),
            ("partner", "integrationType"),
            ("warehouse", "defaultWarehouse"),
            ("created", "createdAt"),
            ("changed", "changedAt"),
        ] {
            writeln!(out, "{name:<12} {}", table::cell(&eshop, path))?;
        }
        Ok(Exit::Done)
    }
}
