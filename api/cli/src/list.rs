//! Lists: how much of one is asked for, and its table.

use std::io::{self, Write as _, stderr};

use clap::Args;
use indicatif::HumanCount;
use longshore_client::{Call, Client, Count, ListQuery, Page, Value};
use serde_json::json;

use crate::output::stdout;
use crate::remote::{self, Remote};
use crate::{Exit, output, table};

/// Records that are asked for at once, of a whole list.
const PAGE: u32 = 1_000;

/// A part of a list, `LIMIT` records without another wish.
#[derive(Args, Debug)]
pub(super) struct Part<const LIMIT: u32> {
    /// Number of records to list.
    #[arg(long, default_value_t = LIMIT, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Number of records to skip.
    #[arg(long, default_value_t = 0)]
    offset: u32,
    /// List all records.
    #[arg(long, conflicts_with_all = ["limit", "offset"])]
    all: bool,
    /// Show ids, too: for commands that take no name.
    #[arg(long)]
    ids: bool,
    /// Print all records as CSV, with their own fields.
    #[arg(long, conflicts_with_all = ["limit", "offset", "ids", "json"])]
    csv: bool,
    #[command(flatten)]
    remote: Remote,
}

impl<const LIMIT: u32> Part<LIMIT> {
    /// The service that it is asked for.
    pub(super) fn client(&self) -> anyhow::Result<Client> {
        self.remote.client()
    }

    /// Whether its table has ids.
    pub(super) fn has_ids(&self) -> bool {
        self.ids
    }

    /// Whether it is written as the service sends it, in JSON or CSV.
    pub(super) fn is_as_sent(&self) -> bool {
        self.remote.json || self.csv
    }

    /// Asks for it. `None` where it is written as the service sends it, which has happened.
    pub(super) async fn ask<T>(
        &self,
        query: ListQuery,
        list: impl Fn(&Client, &ListQuery) -> Call<Page<T>>,
    ) -> anyhow::Result<Option<Value>> {
        let client = self.client()?;
        if self.csv {
            output::pieces(list(&client, &query).csv()).await?;
            return Ok(None);
        }
        let answer = if self.all {
            all(&client, query, list).await?
        } else {
            page(&client, &query.limit(self.limit).offset(self.offset.into()), list).await?.0
        };
        if self.remote.json {
            output::json(&answer)?;
            return Ok(None);
        }
        Ok(Some(answer))
    }

    /// Asks for it, and writes its records: a column is its heading and the dotted path of its values.
    pub(super) async fn write<T>(
        &self,
        query: ListQuery,
        list: impl Fn(&Client, &ListQuery) -> Call<Page<T>>,
        columns: &[(&str, &str)],
    ) -> anyhow::Result<Exit> {
        if let Some(answer) = self.ask(query, list).await? {
            write(&answer, columns, self.ids)?;
        }
        Ok(Exit::Done)
    }
}

/// A page, as it came, and the cursor of the next one.
async fn page<T>(
    client: &Client,
    query: &ListQuery,
    list: impl Fn(&Client, &ListQuery) -> Call<Page<T>>,
) -> anyhow::Result<(Value, Option<String>)> {
    let answer = list(client, query).answer().await?;
    // what has no records and does not say where they are is no list
    let next = answer.read::<Page<Value>>()?.paging.next;
    Ok((remote::json(&answer)?, next))
}

/// All pages, as one answer. Each begins behind the one before.
async fn all<T>(
    client: &Client,
    query: ListQuery,
    list: impl Fn(&Client, &ListQuery) -> Call<Page<T>>,
) -> anyhow::Result<Value> {
    let mut query = query.limit(PAGE).count(Count::None);
    let mut records = Vec::new();
    loop {
        let (mut answer, next) = page(client, &query, &list).await?;
        if let Some(more) = answer["results"].as_array_mut() {
            records.append(more);
        }
        let Some(next) = next else {
            let count = records.len();
            let paging = json!({"returned": count, "from": 0, "to": count, "total": count, "next": null});
            return Ok(json!({"results": records, "paging": paging}));
        };
        query = query.after(next);
    }
}

fn write(answer: &Value, columns: &[(&str, &str)], ids: bool) -> io::Result<()> {
    let shown = columns.iter().copied().filter(|(_, path)| ids || !is_id(path));
    let (heads, paths): (Vec<_>, Vec<_>) = shown.unzip();
    write_rows(answer, &heads, &table::rows(&answer["results"], &paths))
}

/// Whether the values at a path are ids, which nobody reads.
fn is_id(path: &str) -> bool {
    matches!(path.rsplit('.').next(), Some("id" | "job" | "expedition"))
}

/// Writes the rows of a list, and says where there are others.
pub(super) fn write_rows(answer: &Value, heads: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    table::write(&mut stdout(), heads, rows)?;
    let place = |name: &str| answer["paging"][name].as_u64().unwrap_or_default();
    let (from, to, total) = (place("from"), place("to"), place("total"));
    if to < total && from < to {
        let (from, to, total) = (HumanCount(from + 1), HumanCount(to), HumanCount(total));
        writeln!(stderr(), "{from} to {to} of {total}; --limit and --offset list others")?;
    }
    Ok(())
}
