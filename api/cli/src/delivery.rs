//! `longshore delivery`: deliveries of events to webhooks.

use std::io::Write as _;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use indicatif::{HumanCount, HumanDuration};
use longshore_client::{
    Client, DateTime, DeliveryState, Job, ListQuery, Order, Replay as Criteria, ReplayCount, Utc, Uuid, Value,
};

use crate::find::Named;
use crate::job::{counted, followed};
use crate::list::Part;
use crate::output::stdout;
use crate::remote::{self, Remote};
use crate::{Exit, output, read, table};

/// What can be done with deliveries.
#[derive(Debug, Subcommand)]
pub(super) enum DeliveryCommand {
    /// List deliveries, the newest first.
    List(List),
    /// Show a delivery and its attempts, or the body that it sends.
    Show(Show),
    /// Send deliveries again, and follow the job to its end; the exit status shows the result.
    Redeliver(Redeliver),
    /// Send again what matches at several webhooks, and follow the job to its end; the exit status shows the result.
    Replay(Replay),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only deliveries of this webhook, by its id or a part of its destination.
    #[arg(long, value_parser = Named::webhook)]
    webhook: Option<Named>,
    /// Only deliveries of this e-shop, by its id or name.
    #[arg(long, value_parser = Named::eshop)]
    eshop: Option<Named>,
    /// Only deliveries about this record, by its id, number, SKU or name.
    #[arg(long, value_parser = Named::record)]
    entity: Option<Named>,
    /// Only deliveries in these states, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(DeliveryState::ALL))]
    state: Vec<String>,
    /// Only deliveries of this type of event.
    #[arg(long)]
    event: Option<String>,
    /// Only deliveries since a time, a date, or a span until now: 2027-01-31T00:00:00Z, 2027-01-31, yesterday, 6h.
    #[arg(long, value_parser = read::moment, allow_hyphen_values = true)]
    since: Option<DateTime<Utc>>,
    #[command(flatten)]
    part: Part<20>,
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

#[derive(Args, Debug)]
#[group(id = "which", required = true, multiple = true, args = ["webhook", "eshop", "host"])]
pub(super) struct Replay {
    /// Only deliveries of these webhooks, separated by commas; each by its id or a part of its destination.
    #[arg(long, value_delimiter = ',', value_parser = Named::webhook)]
    webhook: Vec<Named>,
    /// Only deliveries of the webhooks of this e-shop, by its id or name.
    #[arg(long, value_parser = Named::eshop)]
    eshop: Option<Named>,
    /// Only deliveries to destinations of this host, such as shop.example.
    #[arg(long)]
    host: Option<String>,
    /// Only deliveries that ended since a time, a date (UTC), or a span until now: 2027-01-31T00:00:00Z, 2027-01-31, yesterday, 90s, 15m, 6h, 2d.
    #[arg(long, value_parser = read::moment, allow_hyphen_values = true)]
    since: DateTime<Utc>,
    /// Only deliveries that ended before that time.
    #[arg(long, value_parser = read::moment, allow_hyphen_values = true)]
    until: Option<DateTime<Utc>>,
    /// Also deliveries that succeeded.
    #[arg(long)]
    delivered: bool,
    /// Only deliveries of this type of event.
    #[arg(long)]
    event: Option<String>,
    /// Only count what would be sent, and estimate how long it takes.
    #[arg(long)]
    count: bool,
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
            Self::Replay(replay) => replay.run().await,
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.part.client()?;
        let mut query = ListQuery::new()
            .equal("webhook", Named::id_of(self.webhook.as_ref(), &client).await?)
            .equal("eshop", Named::id_of(self.eshop.as_ref(), &client).await?)
            .equal("entity.id", Named::id_of(self.entity.as_ref(), &client).await?)
            .among("state", &self.state)
            .equal("event", self.event)
            .sort("id", Order::Descending);
        if let Some(since) = self.since {
            query = query.filter("createdAt", "gte", since);
        }
        let columns = [
            ("id", "id"),
            ("event", "event"),
            ("about", "entity.type"),
            ("its id", "entity.id"),
            ("state", "state"),
            ("attempts", "attemptCount"),
            ("next attempt", "nextAttemptAt"),
            ("created", "createdAt"),
            ("finished", "finishedAt"),
        ];
        self.part.write(query, Client::deliveries, &columns).await
    }
}

impl Show {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.remote.client()?;
        if self.body {
            let answer = client.delivery_body(self.id).answer().await?;
            output::exact(answer.body())?;
            return Ok(Exit::Done);
        }
        let delivery = remote::json(&client.delivery(self.id).answer().await?)?;
        if self.remote.json {
            output::json(&delivery)?;
            return Ok(Exit::Done);
        }
        let said = |path: &str| table::cell(&delivery, path);
        let mut out = stdout();
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
        "{} at {}: {}",
        of("number"),
        of("at"),
        answer_line(&of("status"), &of("durationMs"), &of("error"))
    )
}

/// How an attempt was answered.
pub(super) fn answer_line(status: &str, duration_ms: &str, error: &str) -> String {
    format!("status {status}, {duration_ms} ms, error {error}")
}

impl Redeliver {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.remote.client()?;
        let answer = client.redeliver(&self.ids).answer().await?;
        let job: Job = answer.read()?;
        followed(&client, &answer, job.id, self.detach, self.remote.json).await
    }
}

impl Replay {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.remote.client()?;
        let mut webhooks = Vec::new();
        for webhook in &self.webhook {
            webhooks.push(webhook.id(&client).await?);
        }
        let criteria = Criteria {
            webhooks,
            eshop: Named::id_of(self.eshop.as_ref(), &client).await?,
            host: self.host,
            since: self.since,
            until: self.until,
            delivered: self.delivered,
            event: self.event,
        };
        if self.count {
            let answer = client.count_replay(&criteria).answer().await?;
            if self.remote.json {
                output::json(&remote::json(&answer)?)?;
            } else {
                writeln!(stdout(), "{}", count_line(&answer.read()?))?;
            }
            return Ok(Exit::Done);
        }
        let answer = client.replay(&criteria).answer().await?;
        let job: Job = answer.read()?;
        followed(&client, &answer, job.id, self.detach, self.remote.json).await
    }
}

/// What a replay would find, in a sentence.
fn count_line(count: &ReplayCount) -> String {
    let least = if count.at_least { "at least " } else { "" };
    let time = count.seconds.map(|seconds| Duration::try_from_secs_f64(seconds.ceil()).unwrap_or_default());
    format!(
        "{least}{} of {}: {} waiting, {} failed, {} delivered{}",
        counted(count.total, "delivery", "deliveries"),
        counted(count.webhooks, "webhook", "webhooks"),
        HumanCount(count.waiting),
        HumanCount(count.failed),
        HumanCount(count.delivered),
        time.map_or_else(String::new, |time| format!("; about {} to send", HumanDuration(time))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_a_replay_adds_up_and_says_how_long_it_takes() {
        let count = |at_least, seconds: Option<f64>| {
            let of = serde_json::json!({"webhooks": 2, "waiting": 1_140, "failed": 61_000, "delivered": 0, "total": 62_140,
                                        "atLeast": at_least, "seconds": seconds});
            count_line(&serde_json::from_value(of).unwrap())
        };
        let said = "62,140 deliveries of 2 webhooks: 1,140 waiting, 61,000 failed, 0 delivered";
        assert_eq!(count(false, None), said);
        assert_eq!(count(true, Some(326.2)), format!("at least {said}; about 5 minutes to send"));
    }
}
