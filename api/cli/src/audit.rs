//! `longshore audit`: who changed what, and when.

use std::io::{Write as _, stdout};

use clap::Args;
use longshore_client::{DateTime, ListQuery, Order, Utc, Uuid};

use crate::remote::{self, Remote};
use crate::{Exit, read, table};

#[derive(Args, Debug)]
pub(super) struct Audit {
    /// Only this action, such as `queue.pause`.
    #[arg(long)]
    action: Option<String>,
    /// Only changes by the account or token with this name.
    #[arg(long)]
    actor: Option<String>,
    /// Only changes of this record.
    #[arg(long, value_parser = read::id)]
    entity: Option<Uuid>,
    /// Only changes by this job.
    #[arg(long, value_parser = read::id)]
    job: Option<Uuid>,
    /// Only changes by the request with this id.
    #[arg(long)]
    request: Option<String>,
    /// Only changes in this organisation.
    #[arg(long, value_parser = read::id)]
    organisation: Option<Uuid>,
    /// Only changes since a time, a date, or a span until now: 2027-01-31T00:00:00Z, 2027-01-31, yesterday, 6h.
    #[arg(long, value_parser = read::moment)]
    since: Option<DateTime<Utc>>,
    /// Number of records to list.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Number of newer records to skip.
    #[arg(long, default_value_t = 0)]
    offset: u32,
    #[command(flatten)]
    remote: Remote,
}

impl Audit {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let mut query =
            ListQuery::new().sort("at", Order::Descending).limit(self.limit).offset(self.offset.into());
        for (field, text) in
            [("action", &self.action), ("actor.name", &self.actor), ("requestId", &self.request)]
        {
            if let Some(text) = text {
                query = query.filter(field, "eq", text);
            }
        }
        for (field, id) in
            [("entity.id", self.entity), ("job", self.job), ("organisation", self.organisation)]
        {
            if let Some(id) = id {
                query = query.filter(field, "eq", id);
            }
        }
        if let Some(since) = self.since {
            query = query.filter("at", "gte", since);
        }
        let answer = remote::json(&self.remote.client()?.audit(&query).answer().await?)?;
        if self.remote.json {
            writeln!(stdout(), "{answer}")?;
            return Ok(Exit::Done);
        }
        let paths = ["at", "actor.name", "action", "entity.type", "entity.id", "job", "changes"];
        let heads = ["at", "by", "action", "record", "id", "job", "changes"];
        table::write(&mut stdout().lock(), &heads, &table::rows(&answer["results"], &paths))?;
        Ok(Exit::Done)
    }
}
