//! Lists: how much of one is asked for, and its table.

use std::io::{self, Write as _, stdout};

use clap::Args;
use longshore_client::{Call, Client, ListQuery, Page, Value};

use crate::remote::{self, Remote};
use crate::{Exit, table};

/// A part of a list, `LIMIT` records without another wish.
#[derive(Args, Debug)]
pub(super) struct Part<const LIMIT: u32> {
    /// Number of records to list.
    #[arg(long, default_value_t = LIMIT, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Number of records to skip.
    #[arg(long, default_value_t = 0)]
    offset: u32,
    #[command(flatten)]
    remote: Remote,
}

impl<const LIMIT: u32> Part<LIMIT> {
    /// The service that it is asked for.
    pub(super) fn client(&self) -> anyhow::Result<Client> {
        self.remote.client()
    }

    /// Asks for it. `None` where it is written as JSON already.
    pub(super) async fn ask<T>(
        &self,
        query: ListQuery,
        list: impl FnOnce(&Client, &ListQuery) -> Call<Page<T>>,
    ) -> anyhow::Result<Option<Value>> {
        self.ask_for(&query.limit(self.limit).offset(self.offset.into()), list).await
    }

    async fn ask_for<T>(
        &self,
        query: &ListQuery,
        list: impl FnOnce(&Client, &ListQuery) -> Call<Page<T>>,
    ) -> anyhow::Result<Option<Value>> {
        let answer = remote::json(&list(&self.client()?, query).answer().await?)?;
        if self.remote.json {
            writeln!(stdout(), "{answer}")?;
            return Ok(None);
        }
        Ok(Some(answer))
    }

    /// Asks for the whole list instead, and writes it.
    pub(super) async fn write_all<T>(
        &self,
        list: impl FnOnce(&Client, &ListQuery) -> Call<Page<T>>,
        columns: &[(&str, &str)],
    ) -> anyhow::Result<Exit> {
        if let Some(answer) = self.ask_for(&ListQuery::new(), list).await? {
            write(&answer, columns)?;
        }
        Ok(Exit::Done)
    }

    /// Asks for it, and writes its records: a column is its heading and the dotted path of its values.
    pub(super) async fn write<T>(
        &self,
        query: ListQuery,
        list: impl FnOnce(&Client, &ListQuery) -> Call<Page<T>>,
        columns: &[(&str, &str)],
    ) -> anyhow::Result<Exit> {
        if let Some(answer) = self.ask(query, list).await? {
            write(&answer, columns)?;
        }
        Ok(Exit::Done)
    }
}

fn write(answer: &Value, columns: &[(&str, &str)]) -> io::Result<()> {
    let (heads, paths): (Vec<_>, Vec<_>) = columns.iter().copied().unzip();
    table::write(&mut stdout().lock(), &heads, &table::rows(&answer["results"], &paths))
}
