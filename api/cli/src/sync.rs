//! `longshore sync`: sends a file of rows as a stream, and follows the job to its end.

use std::io;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use longshore_client::{Call, Client, Job, ListQuery, Rows, Value};

use crate::find::Named;
use crate::job::{followed, style};
use crate::remote::Remote;
use crate::table::shown;
use crate::{Exit, Usage, read};

/// What can be synced.
#[derive(Debug, Subcommand)]
pub(super) enum SyncCommand {
    /// Sync products, one JSON object a line or a file of CSV, and follow the job to its end; the exit status shows the result.
    Products(Products),
    /// Sync stocks, one JSON object a line or a file of CSV, and follow the job to its end; the exit status shows the result.
    Stocks(Stocks),
}

#[derive(Args, Debug)]
pub(super) struct Products {
    /// File of products, one JSON object a line, or CSV if its name ends with `.csv`; `-` for standard input.
    file: PathBuf,
    /// Id or name of their e-shop.
    #[arg(long, value_parser = Named::eshop)]
    eshop: Named,
    /// Inventory of the partner, if it has several.
    #[arg(long)]
    inventory: Option<String>,
    /// End as soon as the job is accepted, and print its id.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Stocks {
    /// File of stocks, one JSON object with `productSku` and `quantity` a line, or CSV if its name ends with `.csv`; `-` for standard input.
    file: PathBuf,
    /// Id or name of their e-shop.
    #[arg(long, value_parser = Named::eshop)]
    eshop: Named,
    /// Id or name of their warehouse, or the partner's id of it.
    #[arg(long)]
    warehouse: String,
    /// End as soon as the job is accepted, and print its id.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    remote: Remote,
}

impl SyncCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Products(products) => products.run().await,
            Self::Stocks(Stocks { file, eshop, warehouse, detach, remote }) => {
                let client = remote.client()?;
                let eshop = eshop.id(&client).await?;
                let warehouse = named_warehouse(&client, warehouse).await?;
                send(file, detach, &remote, |client, rows| client.sync_stocks(eshop, &warehouse, rows)).await
            }
        }
    }
}

/// The id of the only warehouse with that name. Whatever else was given is an id, or the partner's, for the service to judge.
async fn named_warehouse(client: &Client, given: String) -> anyhow::Result<String> {
    if read::id(&given).is_ok() {
        return Ok(given);
    }
    let called = ListQuery::new().filter("name", "like", &given).limit(100);
    let found = client.list::<Value>("/api/warehouse/list", &called).send().await?;
    let is_named = |record: &&Value| {
        record["name"].as_str().is_some_and(|name| name.to_lowercase() == given.to_lowercase())
    };
    let ids: Vec<_> =
        found.results.iter().filter(is_named).filter_map(|record| record["id"].as_str()).collect();
    match ids.as_slice() {
        [] => Ok(given),
        [id] => Ok((*id).to_owned()),
        several => {
            let (called, several) = (shown(&given), several.join("; "));
            anyhow::bail!(Usage(format!("{called} is the name of several; name one by its id: {several}")))
        }
    }
}

impl Products {
    async fn run(self) -> anyhow::Result<Exit> {
        let eshop = self.eshop.id(&self.remote.client()?).await?;
        let inventory = self.inventory.as_deref();
        send(self.file, self.detach, &self.remote, |client, rows| {
            client.sync_products(eshop, inventory, rows)
        })
        .await
    }
}

/// Sends a file of rows by a call, and follows its job to the end.
pub(super) async fn send(
    file: PathBuf,
    detach: bool,
    remote: &Remote,
    call: impl FnOnce(&Client, Rows) -> Call<Job>,
) -> anyhow::Result<Exit> {
    let client = remote.client()?;
    let rows = if file.as_os_str() == "-" { Rows::from_reader(io::stdin()) } else { Rows::from_file(file)? };
    // drawn only on a terminal
    let bar = match rows.size() {
        Some(size) => ProgressBar::new(size)
            .with_style(style("sending {wide_bar} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left")),
        None => ProgressBar::new_spinner().with_style(style("{spinner} sending {bytes}, {bytes_per_sec}")),
    };
    let drawn = bar.clone();
    let rows = rows.on_progress(move |bytes| drawn.set_position(bytes));
    let answer = call(&client, rows).answer().await;
    bar.finish_and_clear();
    let answer = answer?;
    let job: Job = answer.read()?;
    followed(&client, &answer, job.id, detach, remote.json).await
}
