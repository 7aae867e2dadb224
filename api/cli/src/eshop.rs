//! `longshore eshop`: e-shops.

use std::io::{Write as _, stdout};

use clap::{Args, Subcommand};
use longshore_client::{ListQuery, Order, Uuid};

use crate::remote::{self, Remote};
use crate::{Exit, read, table};

/// What can be done with e-shops.
#[derive(Debug, Subcommand)]
pub(super) enum EshopCommand {
    /// List e-shops, by name.
    List(List),
    /// Show an e-shop.
    Show(Show),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only e-shops whose name contains this.
    #[arg(long)]
    name: Option<String>,
    /// Only e-shops of this organisation.
    #[arg(long, value_parser = read::id)]
    organisation: Option<Uuid>,
    /// Number of e-shops to list.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Number of e-shops to skip.
    #[arg(long, default_value_t = 0)]
    offset: u32,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Show {
    /// Id of the e-shop.
    #[arg(value_parser = read::id)]
    id: Uuid,
    #[command(flatten)]
    remote: Remote,
}

impl EshopCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run().await,
            Self::Show(show) => show.run().await,
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<Exit> {
        let mut query =
            ListQuery::new().sort("name", Order::Ascending).limit(self.limit).offset(self.offset.into());
        if let Some(name) = &self.name {
            query = query.filter("name", "like", name);
        }
        if let Some(organisation) = self.organisation {
            query = query.filter("organisation", "eq", organisation);
        }
        let answer = remote::json(&self.remote.client()?.eshops(&query.nested()).answer().await?)?;
        if self.remote.json {
            writeln!(stdout(), "{answer}")?;
            return Ok(Exit::Done);
        }
        let paths = ["id", "name", "organisation.name", "active", "integrationType", "createdAt"];
        let heads = ["id", "name", "organisation", "active", "partner", "created"];
        table::write(&mut stdout().lock(), &heads, &table::rows(&answer["results"], &paths))?;
        Ok(Exit::Done)
    }
}

impl Show {
    async fn run(self) -> anyhow::Result<Exit> {
        let eshop = remote::json(&self.remote.client()?.eshop(self.id).answer().await?)?;
        let mut out = stdout().lock();
        if self.remote.json {
            writeln!(out, "{eshop}")?;
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
