//! `longshore event`: readers of events, and what they read.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use longshore_client::{Client, ListQuery, ReaderToCreate, Uuid, Value};

use crate::list::Part;
use crate::output::{self, stdout};
use crate::remote::{self, Remote};
use crate::webhook::Choice;
use crate::{Exit, Unknown, read, table};

/// How long a request waits for something new; the answer comes soon after.
const WAIT: (u64, Duration) = (30, Duration::from_mins(1));

/// What can be done with readers.
#[derive(Debug, Subcommand)]
pub(super) enum EventCommand {
    /// List readers.
    List(List),
    /// Create a reader, and print its id.
    Create(Create),
    /// Print the events of a reader, one JSON object a line.
    Read(Read),
    /// Print the records that a reader begins with, one JSON object a line, and last where to read on.
    Snapshot(Snapshot),
    /// Delete a reader.
    Delete(One),
}

#[derive(Args, Debug)]
pub(super) struct List {
    #[command(flatten)]
    part: Part<100>,
}

#[derive(Args, Debug)]
pub(super) struct Create {
    /// What people call it.
    #[arg(long)]
    name: String,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct One {
    /// Id or name of the reader.
    reader: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Read {
    /// Id or name of the reader.
    reader: String,
    /// Keeps the place: reading begins where it says, and it is written after each part that was printed. Without it, reading begins at
    /// the stored position of the reader.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Stores the place at the service after each part that was printed, instead of in a file: the next run goes on there.
    #[arg(long, conflicts_with = "file")]
    store: bool,
    /// Waits for more at the end, until Ctrl-C.
    #[arg(long)]
    follow: bool,
    /// Events of a request.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Snapshot {
    /// Id or name of the reader.
    reader: String,
    /// Which records.
    #[arg(long, value_parser = PossibleValuesParser::new(["products", "stocks", "orders"]))]
    of: String,
    #[command(flatten)]
    remote: Remote,
}

impl EventCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(List { part }) => {
                let columns = [
                    ("id", "id"),
                    ("name", "name"),
                    ("organisation", "organisation.name"),
                    ("e-shop", "eshop.name"),
                    ("event", "event|events"),
                    ("read", "readAt"),
                ];
                let mut query = ListQuery::new();
                if !part.is_as_sent() {
                    query = query.nested();
                }
                part.write(query, Client::event_readers, &columns).await
            }
            Self::Create(Create { name, choice, remote }) => {
                let client = remote.client()?;
                let reader = ReaderToCreate { choice: choice.of(&client).await?, name };
                let made = remote::json(&client.create_event_reader(&reader).answer().await?)?;
                if remote.json {
                    output::json(&made)?;
                } else {
                    writeln!(stdout(), "reader {}", table::shown(made["id"].as_str().unwrap_or_default()))?;
                }
                Ok(Exit::Done)
            }
            Self::Read(read) => read.run().await,
            Self::Snapshot(Snapshot { reader, of, remote }) => {
                let client = remote.client()?;
                let id = named(&client, &reader).await?;
                output::pieces(client.event_snapshot(id, &of)).await?;
                Ok(Exit::Done)
            }
            Self::Delete(One { reader, remote }) => {
                let client = remote.client()?;
                let id = named(&client, &reader).await?;
                client.delete_event_reader(id).send().await?;
                writeln!(stdout(), "reader {id} is deleted")?;
                Ok(Exit::Done)
            }
        }
    }
}

impl Read {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.remote.client()?;
        let id = named(&client, &self.reader).await?;
        let mut after = match &self.file {
            Some(file) if file.exists() => {
                let text = std::fs::read_to_string(file).with_context(|| shown(file))?;
                Some(text.trim().to_owned()).filter(|text| !text.is_empty())
            }
            _ => None,
        };
        loop {
            let wait = if self.follow { WAIT.0 } else { 0 };
            let page = client.events(id, after.as_deref(), self.limit, wait).timeout(WAIT.1).send().await?;
            for event in &page.events {
                output::json(event)?;
            }
            stdout().flush()?;
            // what was not printed is read once more
            if let Some(file) = &self.file {
                keep(file, &page.next).with_context(|| shown(file))?;
            }
            if self.store {
                client.store_position(id, &page.next).send().await?;
            }
            let is_end = page.events.is_empty() && page.behind_ms == 0;
            if is_end && !self.follow {
                return Ok(Exit::Done);
            }
            after = Some(page.next);
        }
    }
}

/// Writes a file as a whole, or not at all.
fn keep(file: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, format!("{text}\n"))?;
    std::fs::rename(&beside, file)
}

fn shown(file: &Path) -> String {
    table::shown(&file.display().to_string())
}

/// The reader of this id, or of this name.
async fn named(client: &Client, text: &str) -> anyhow::Result<Uuid> {
    if let Ok(id) = read::id(text) {
        return Ok(id);
    }
    let query = ListQuery::new().equal("name", Some(text)).limit(2);
    let found = client.event_readers(&query).send().await?.results;
    let ids: Vec<Uuid> =
        found.iter().filter_map(|reader: &Value| reader["id"].as_str()?.parse().ok()).collect();
    match ids.as_slice() {
        [id] => Ok(*id),
        [] => anyhow::bail!(Unknown(format!("there is no reader {}", table::shown(text)))),
        _ => anyhow::bail!(crate::Usage(format!(
            "{} is the name of several; name one by its id",
            table::shown(text)
        ))),
    }
}
