//! `longshore audit`: who changed what, and when.

use clap::Args;
use longshore_client::{Client, DateTime, ListQuery, Order, Utc, Uuid};

use crate::find::Named;
use crate::list::Part;
use crate::{Exit, read};

#[derive(Args, Debug)]
pub(super) struct Audit {
    /// Only this action, such as `queue.pause`.
    #[arg(long)]
    action: Option<String>,
    /// Only changes by the accounts and tokens whose name contains this, or by that with this id.
    #[arg(long)]
    actor: Option<String>,
    /// Only changes of this record, by its id, number, SKU or name.
    #[arg(long, value_parser = Named::record)]
    entity: Option<Named>,
    /// Only changes by this job.
    #[arg(long, value_parser = read::id)]
    job: Option<Uuid>,
    /// Only changes by the request with this id.
    #[arg(long)]
    request: Option<String>,
    /// Only changes in this organisation, by its id or name.
    #[arg(long, value_parser = Named::organisation)]
    organisation: Option<Named>,
    /// Only changes since a time, a date, or a span until now: 2027-01-31T00:00:00Z, 2027-01-31, yesterday, 6h.
    #[arg(long, value_parser = read::moment, allow_hyphen_values = true)]
    since: Option<DateTime<Utc>>,
    #[command(flatten)]
    part: Part<20>,
}

impl Audit {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let client = self.part.client()?;
        let mut query = ListQuery::new()
            .equal("action", self.action)
            .equal("requestId", self.request)
            .equal("entity.id", Named::id_of(self.entity.as_ref(), &client).await?)
            .equal("job", self.job)
            .equal("organisation", Named::id_of(self.organisation.as_ref(), &client).await?)
            .sort("id", Order::Descending);
        if let Some(actor) = self.actor {
            query = match read::id(&actor) {
                Ok(id) => query.filter("actor.id", "eq", id),
                Err(_) => query.filter("actor.name", "like", actor),
            };
        }
        if let Some(since) = self.since {
            query = query.filter("at", "gte", since);
        }
        let columns = [
            ("at", "at"),
            ("by", "actor.name"),
            ("action", "action"),
            ("record", "entity.type"),
            ("id", "entity.id"),
            ("job", "job"),
            ("changes", "changes"),
        ];
        self.part.write(query, Client::audit, &columns).await
    }
}
