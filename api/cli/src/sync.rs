//! `longshore sync`: sends a file of rows as a stream, and follows the job to its end.

mod map;

use std::io;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use longshore_client::{Call, Client, Job, ListQuery, Rows, Value};

use self::map::{Plan, Renaming};
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

/// A file of rows.
#[derive(Args, Debug)]
pub(super) struct RowFile {
    /// File of rows, one JSON object a line, or CSV if its name ends with `.csv`; `-` for standard input.
    file: PathBuf,
    /// Character set of a file of CSV that is not UTF-8, such as windows-1250.
    #[arg(long)]
    charset: Option<String>,
    /// Give a column of a file of CSV the name of a field, and multiply its numbers, to whole ones: `sku=productSku`,
    /// `weight_kg=weight*1000`; `*=_` leaves all other columns out.
    #[arg(long, value_name = "COLUMN=FIELD", value_parser = Renaming::read)]
    map: Vec<Renaming>,
    /// Only find out what the rows would do; `longshore job apply` then does it.
    #[arg(long)]
    dry_run: bool,
    /// End as soon as the job is accepted, and print its id.
    #[arg(long)]
    detach: bool,
}

#[derive(Args, Debug)]
pub(super) struct Products {
    #[command(flatten)]
    file: RowFile,
    /// Id or name of their e-shop.
    #[arg(long, value_parser = Named::eshop)]
    eshop: Named,
    /// Inventory of the partner, if it has several.
    #[arg(long)]
    inventory: Option<String>,
    /// Withhold what would switch off more products than that: a number, or a percentage of the active ones such as 20%.
    #[arg(long, value_name = "LIMIT")]
    max_deactivated: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Stocks {
    #[command(flatten)]
    file: RowFile,
    /// Id or name of their e-shop.
    #[arg(long, value_parser = Named::eshop)]
    eshop: Named,
    /// Id or name of their warehouse, or the partner's id of it.
    #[arg(long)]
    warehouse: String,
    /// Withhold what would set more stocks from above 0 to 0 than that: a number, or a percentage of those above 0 such as 20%.
    #[arg(long, value_name = "LIMIT")]
    max_zeroed: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

impl SyncCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Products(products) => products.run().await,
            Self::Stocks(Stocks { file, eshop, warehouse, max_zeroed, remote }) => {
                let client = remote.client()?;
                let eshop = eshop.id(&client).await?;
                let warehouse = named_warehouse(&client, warehouse).await?;
                let guard = ("maxZeroed", max_zeroed);
                file.send(&remote, guard, |client, rows| client.sync_stocks(eshop, &warehouse, rows)).await
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
        let guard = ("maxDeactivated", self.max_deactivated);
        self.file.send(&self.remote, guard, |client, rows| client.sync_products(eshop, inventory, rows)).await
    }
}

impl RowFile {
    /// Sends its rows by a call, with the limit of its guard, and follows their job to the end.
    pub(super) async fn send(
        self,
        remote: &Remote,
        (guard, limit): (&'static str, Option<String>),
        call: impl FnOnce(&Client, Rows) -> Call<Job>,
    ) -> anyhow::Result<Exit> {
        let Self { file, charset, map, dry_run, detach } = self;
        let mut rows = if file.as_os_str() == "-" {
            Rows::from_reader(io::stdin())
        } else {
            Rows::from_file(file.clone())?
        };
        if !rows.is_csv() && (charset.is_some() || !map.is_empty()) {
            let said = "--charset and --map are for files of CSV, whose names end with .csv";
            anyhow::bail!(Usage(said.to_owned()));
        }
        let plan = (!map.is_empty()).then(|| Plan::of(&file, charset.as_deref(), &map)).transpose()?;
        if let Some(charset) = charset {
            rows = rows.charset(charset);
        }
        if let Some(plan) = plan {
            rows = rows.delimiter(plan.delimiter.into()).through(move |file| plan.pass_on(file));
        }
        if dry_run {
            rows = rows.dry_run();
        }
        if let Some(limit) = limit {
            rows = rows.guard(guard, limit);
        }
        let client = remote.client()?;
        // drawn only on a terminal
        let bar = match rows.size() {
            Some(size) => ProgressBar::new(size)
                .with_style(style("sending {wide_bar} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left")),
            None => {
                ProgressBar::new_spinner().with_style(style("{spinner} sending {bytes}, {bytes_per_sec}"))
            }
        };
        let drawn = bar.clone();
        let rows = rows.on_progress(move |bytes| drawn.set_position(bytes));
        let answer = call(&client, rows).answer().await;
        bar.finish_and_clear();
        let answer = answer?;
        let job: Job = answer.read()?;
        followed(&client, &answer, job.id, detach, remote.json).await
    }
}
