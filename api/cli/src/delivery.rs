//! `longshore delivery`: deliveries of events to webhooks.

use std::io::{Write as _, stdout};

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use longshore_client::{DateTime, DeliveryState, Job, ListQuery, Order, Utc, Uuid, Value};

use crate::job::followed;
use crate::remote::{self, Remote};
use crate::{Exit, read, table};

/// What can be done with deliveries.
#[derive(Debug, Subcommand)]
pub(super) enum DeliveryCommand {
    /// List deliveries, the newest first.
    List(List),
    /// Show a delivery and its attempts, or the body that it sends.
    Show(Show),
    /// Send deliveries again, and follow the job to its end; the exit status shows the result.
    Redeliver(Redeliver),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only deliveries of this webhook.
    #[arg(long, value_parser = read::id)]
    webhook: Option<Uuid>,
    /// Only deliveries of this e-shop.
    #[arg(long, value_parser = read::id)]
    eshop: Option<Uuid>,
    /// Only deliveries about this record.
    #[arg(long, value_parser = read::id)]
    entity: Option<Uuid>,
    /// Only deliveries in these states, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(DeliveryState::ALL))]
    state: Vec<String>,
    /// Only deliveries of this type of event.
    #[arg(long)]
    event: Option<String>,
    /// Only deliveries since a time, a date, or a span until now: 2027-01-31T00:00:00Z, 2027-01-31, yesterday, 6h.
    #[arg(long, value_parser = read::moment)]
    since: Option<DateTime<Utc>>,
    /// Number of deliveries to list.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Number of newer deliveries to skip.
    #[arg(long, default_value_t = 0)]
    offset: u32,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Show {
    /// Id of the delivery.
    #[arg(value_parser = read::id)]
    id: Uuid,
    /// Print the exact bytes that each attempt sends.
    #[arg(long)]
    body: bool,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Redeliver {
    /// Ids of the deliveries.
    #[arg(value_parser = read::id, required = true)]
    ids: Vec<Uuid>,
    /// End as soon as the job is accepted, and print its id.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    remote: Remote,
}

impl DeliveryCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run().await,
            Self::Show(show) => show.run().await,
            Self::Redeliver(redeliver) => redeliver.run().await,
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<Exit> {
        let mut query = ListQuery::new()
            .sort("createdAt", Order::Descending)
            .limit(self.limit)
            .offset(self.offset.into());
        if !self.state.is_empty() {
            query = query.filter("state", "in", &self.state);
        }
        for (field, id) in [("webhook", self.webhook), ("eshop", self.eshop), ("entity.id", self.entity)] {
            if let Some(id) = id {
                query = query.filter(field, "eq", id);
            }
        }
        if let Some(event) = &self.event {
            query = query.filter("event", "eq", event);
        }
        if let Some(since) = self.since {
            query = query.filter("createdAt", "gte", since);
        }
        let answer = remote::json(&self.remote.client()?.deliveries(&query).answer().await?)?;
        if self.remote.json {
            writeln!(stdout(), "{answer}")?;
            return Ok(Exit::Done);
        }
        let paths =
            ["id", "event", "entity.id", "state", "attemptCount", "nextAttemptAt", "createdAt", "finishedAt"];
        let heads = ["id", "event", "about", "state", "attempts", "next attempt", "created", "finished"];
        table::write(&mut stdout().lock(), &heads, &table::rows(&answer["results"], &paths))?;
        Ok(Exit::Done)
    }
}

impl Show {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.remote.client()?;
        let mut out = stdout().lock();
        if self.body {
            let answer = client.delivery_body(self.id).answer().await?;
            out.write_all(answer.body())?;
            writeln!(out)?;
            return Ok(Exit::Done);
        }
        let delivery = remote::json(&client.delivery(self.id).answer().await?)?;
        if self.remote.json {
            writeln!(out, "{delivery}")?;
            return Ok(Exit::Done);
        }
        let said = |path: &str| table::cell(&delivery, path);
        for (name, value) in [
            ("delivery", said("id")),
            ("event", said("event")),
            ("about", format!("{} {}", said("entity.type"), said("entity.id"))),
            ("webhook", said("webhook")),
            ("webhook-id", said("webhookId")),
            ("state", said("state")),
            ("next", said("nextAttemptAt")),
            ("created", said("createdAt")),
            ("finished", said("finishedAt")),
        ] {
            writeln!(out, "{name:<10} {value}")?;
        }
        for attempt in delivery["attempts"].as_array().into_iter().flatten() {
            writeln!(out, "attempt    {}", attempt_line(attempt))?;
        }
        Ok(Exit::Done)
    }
}

fn attempt_line(attempt: &Value) -> String {
    let of = |name: &str| table::cell(attempt, name);
    format!(
        "{} at {}: status {}, {} ms, error {}",
        of("number"),
        of("at"),
        of("status"),
        of("durationMs"),
        of("error")
    )
}

impl Redeliver {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.remote.client()?;
        let answer = client.redeliver(&self.ids).answer().await?;
        let job: Job = answer.read()?;
        followed(&client, &answer, job.id, self.detach, self.remote.json).await
    }
}
