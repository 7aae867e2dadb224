//! `longshore-api webhook`: webhooks, over HTTP.

use std::io::{Write as _, stdout};
use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, Utc};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use longshore_shared::kernel::retry::Backoff;
use longshore_shared::list::fields::subscription::HEALTHS;
use serde_json::{Value, json};
use uuid::Uuid;

use super::job::watch;
use super::remote::{Job, Refusal, Remote, Service};
use super::{Exit, read, table};

/// What can be done with webhooks.
#[derive(Debug, Subcommand)]
pub(super) enum WebhookCommand {
    /// Lists webhooks.
    List(List),
    /// Sends a test to a webhook's destination, and tells what became of it.
    Test(Test),
    /// Sends everything again that did not succeed since a time, and follows the job to its end; the exit status tells how.
    Recover(Recover),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only of this e-shop.
    #[arg(long, value_parser = read::id)]
    eshop: Option<Uuid>,
    /// Only of this health.
    #[arg(long, value_parser = PossibleValuesParser::new(HEALTHS))]
    health: Option<String>,
    /// How many.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// How many to leave out.
    #[arg(long, default_value_t = 0)]
    offset: u32,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Test {
    /// Id of the webhook.
    #[arg(value_parser = read::id)]
    id: Uuid,
    /// Seconds to wait for the first attempt; 0: none.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=600))]
    wait: u64,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Recover {
    /// Id of the webhook.
    #[arg(value_parser = read::id)]
    id: Uuid,
    /// Since when: a time (2027-01-31T00:00:00Z), a date (2027-01-31, UTC), or a span until now (90s, 15m, 6h, 2d).
    #[arg(long, value_parser = read::moment)]
    since: DateTime<Utc>,
    /// Ends as soon as the job is accepted.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    remote: Remote,
}

impl WebhookCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run().await,
            Self::Test(test) => test.run().await,
            Self::Recover(recover) => recover.run().await,
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<Exit> {
        let mut criteria = serde_json::Map::new();
        if let Some(eshop) = self.eshop {
            criteria.insert("eshop".to_owned(), json!({"eq": eshop}));
        }
        if let Some(health) = self.health {
            criteria.insert("health".to_owned(), json!({"eq": health}));
        }
        let body = json!({"criteria": criteria, "limit": self.limit, "offset": self.offset});
        let answer = Service::new(&self.remote)?.post("/api/eshop-webhook/list", body).await?;
        if self.remote.json {
            writeln!(stdout(), "{answer}")?;
            return Ok(Exit::Done);
        }
        let paths = ["id", "eshop", "event", "active", "health", "destination", "disabledReason"];
        let heads = ["id", "eshop", "event", "active", "health", "destination", "disabled because"];
        table::write(&mut stdout().lock(), &heads, &table::rows(&answer, &paths))?;
        Ok(Exit::Done)
    }
}

impl Test {
    async fn run(self) -> anyhow::Result<Exit> {
        let service = Service::new(&self.remote)?;
        let path = format!("/api/eshop-webhook/{}/test", self.id);
        let sent = service.post(&path, json!(null)).await?;
        let delivery = table::cell(&sent, "id");
        let webhook = service.get(&format!("/api/eshop-webhook/{}", self.id)).await?;
        if self.wait == 0 {
            if self.remote.json {
                writeln!(stdout(), "{sent}")?;
            } else if is_inactive(&webhook) {
                writeln!(stdout(), "delivery {delivery} is kept: {INACTIVE}")?;
            } else {
                writeln!(stdout(), "delivery {delivery} is on its way")?;
            }
            return Ok(Exit::Done);
        }
        // an inactive webhook keeps its deliveries, and none is attempted
        let wait = if is_inactive(&webhook) { 0 } else { self.wait };
        let delivery = attempted(&service, &delivery, Duration::from_secs(wait)).await?;
        if self.remote.json {
            writeln!(stdout(), "{delivery}")?;
        } else if delivery["state"] == "pending" && delivery["attemptCount"] == 0 {
            let why = untried(&service, &webhook, self.id).await?;
            writeln!(stdout(), "delivery {} is {why}", table::cell(&delivery, "id"))?;
        } else {
            writeln!(
                stdout(),
                "delivery {} is {} after {} attempts; {}",
                table::cell(&delivery, "id"),
                table::cell(&delivery, "state"),
                table::cell(&delivery, "attemptCount"),
                last_answer(&delivery),
            )?;
        }
        Ok(if delivery["state"] == "delivered" { Exit::Done } else { Exit::Failed })
    }
}

/// Why an inactive webhook sends nothing.
const INACTIVE: &str = "the webhook is inactive, and sends it when it is activated";

fn is_inactive(webhook: &Value) -> bool {
    webhook["active"] == false
}

/// The last answer to a delivery.
fn last_answer(delivery: &Value) -> String {
    let attempt = delivery["attempts"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
    format!(
        "status {}, {} ms, error {}",
        table::cell(&attempt, "status"),
        table::cell(&attempt, "durationMs"),
        table::cell(&attempt, "error"),
    )
}

/// Why a test was not attempted: from the state of the webhook, and the last answer to an earlier delivery.
async fn untried(service: &Service, webhook: &Value, id: Uuid) -> Result<String, Refusal> {
    if is_inactive(webhook) {
        return Ok(format!("kept: {INACTIVE}"));
    }
    let body = json!({
        "criteria": {"webhook": {"eq": id}, "state": {"eq": "pending"}, "attemptCount": {"gt": 0}},
        "sort": [{"field": "createdAt"}], "limit": 1, "select": ["id"],
    });
    let found = service.post("/api/webhook-delivery/list", body).await?;
    let Some(first) = found["results"][0]["id"].as_str() else {
        return Ok("pending: no worker has tried it yet".to_owned());
    };
    let first = service.get(&format!("/api/webhook-delivery/{first}")).await?;
    Ok(format!(
        "held by the breaker: the destination fails, and is asked by delivery {} first; {}",
        table::cell(&first, "id"),
        last_answer(&first),
    ))
}

/// The delivery after an attempt, or its current state when the time is over.
async fn attempted(service: &Service, id: &str, wait: Duration) -> Result<Value, Refusal> {
    let mut looks = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
    let until = Instant::now() + wait;
    loop {
        let delivery = service.get(&format!("/api/webhook-delivery/{id}")).await?;
        let tried = delivery["attemptCount"].as_u64().is_some_and(|attempts| attempts > 0);
        if tried || delivery["state"] != "pending" || Instant::now() >= until {
            return Ok(delivery);
        }
        tokio::time::sleep(looks.next_delay()).await;
    }
}

impl Recover {
    async fn run(self) -> anyhow::Result<Exit> {
        let path = format!("/api/eshop-webhook/{}/recover", self.id);
        let body = json!({"since": self.since.to_rfc3339_opts(SecondsFormat::Micros, true)});
        let service = Service::new(&self.remote)?;
        let answer = service.post(&path, body).await?;
        let job: Job = service.read(&answer)?;
        if !self.detach {
            return watch(&service, job.id, self.remote.json).await;
        }
        if self.remote.json {
            writeln!(stdout(), "{answer}")?;
        } else {
            writeln!(stdout(), "{}", job.id)?;
        }
        Ok(Exit::Done)
    }
}
