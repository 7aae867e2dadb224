//! `longshore webhook`: webhooks.

mod listen;

use std::io::Write as _;
use std::time::{Duration, Instant};

use chrono::SecondsFormat;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use indicatif::HumanCount;
use longshore_client::{
    Answer, Client, CreatedDelivery, CreatedWebhook, DateTime, Delivery, DeliveryState, Error, EventChoice,
    Health, Job, ListQuery, Order, Utc, Uuid, Webhook, WebhookBatch, WebhookToCreate, WebhookToTry,
    WebhookTried,
};
use serde_json::{Value, json};

use crate::delivery::answer_line;
use crate::find::Named;
use crate::job::{counted, followed};
use crate::list::Part;
use crate::output::stdout;
use crate::remote::{self, Remote};
use crate::{Exit, output, read, table};

/// The wait between two looks at a delivery: at first, and at most.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// What can be done with webhooks.
#[derive(Debug, Subcommand)]
pub(super) enum WebhookCommand {
    /// List webhooks.
    List(List),
    /// Create a webhook, and print its secret.
    Create(Create),
    /// Show what a webhook would have been told of lately.
    Try(Try),
    /// Give a webhook a new secret, and print it; the former one signs for another day.
    Rotate(One),
    /// Activate a webhook.
    Activate(One),
    /// Deactivate a webhook; its deliveries are kept.
    Deactivate(One),
    /// Delete a webhook; its waiting deliveries are cancelled.
    Delete(One),
    /// Send copies of the deliveries of a webhook to a URL that only this machine reaches, such as http://localhost:3000/hooks.
    Listen(listen::Listen),
    /// Send an example of an event to the destination of a webhook, and show its result.
    Test(Test),
    /// Resend everything that has not succeeded since a time, and follow the job to its end; the exit status shows the result.
    Recover(Recover),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only webhooks of this e-shop, by its id or name.
    #[arg(long, value_parser = Named::eshop)]
    eshop: Option<Named>,
    /// Only webhooks of this health.
    #[arg(long, value_parser = PossibleValuesParser::new(Health::ALL))]
    health: Option<String>,
    #[command(flatten)]
    part: Part<100>,
}

/// The events of a webhook, or of a reader.
#[derive(Args, Debug)]
pub(super) struct Choice {
    /// Id or name of the e-shop whose events it receives.
    #[arg(long, value_parser = Named::eshop, required_unless_present = "organisation")]
    eshop: Option<Named>,
    /// Id or name of the organisation: it receives the events of all its e-shops, and its own.
    #[arg(long, value_parser = Named::organisation, conflicts_with = "eshop")]
    organisation: Option<Named>,
    /// Types of its events, such as `product_change,sync_finished`; `*` for all that there are.
    #[arg(long, value_name = "TYPES", default_value = "*", value_delimiter = ',')]
    events: Vec<String>,
    /// Which of these, by their body, as in lists: {"data.fields.quantity": {"lte": 5}}.
    #[arg(long, value_name = "JSON", value_parser = read_json)]
    criteria: Option<Value>,
    /// Names of what is sent of `data` and of its `fields`, beside ids and business keys: quantity,warehouse.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    select: Option<Vec<String>>,
}

#[derive(Args, Debug)]
pub(super) struct Try {
    #[command(flatten)]
    choice: Choice,
    /// A time, a date (UTC), or a span until now: 2027-01-31T00:00:00Z, 2027-01-31, yesterday, 90s, 15m, 6h, 2d.
    #[arg(long, value_parser = read::moment, allow_hyphen_values = true)]
    since: Option<DateTime<Utc>>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Create {
    #[command(flatten)]
    choice: Choice,
    /// URL to call: `https`, without credentials, fragment or private address.
    #[arg(long, value_name = "URL")]
    destination: String,
    /// Events that a call has at most, up to 500; without it, each event has a call of its own.
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u32).range(1..=500))]
    batch: Option<u32>,
    /// Milliseconds that the first event of a batch waits for others, up to 60,000.
    #[arg(long, value_name = "MS", requires = "batch", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=60_000))]
    batch_wait: u32,
    /// Calls that may begin in a second, 0.1 to 1,000; without it, any number.
    #[arg(long, value_name = "CALLS", value_parser = finite)]
    max_per_second: Option<f64>,
    /// Create it inactive: it keeps its deliveries until it is activated.
    #[arg(long)]
    inactive: bool,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct One {
    /// Id of the webhook, or a part of its destination that no other has.
    #[arg(value_parser = Named::webhook)]
    webhook: Named,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Test {
    /// Id of the webhook, or a part of its destination that no other has.
    #[arg(value_parser = Named::webhook)]
    webhook: Named,
    /// Type of the event, whatever the webhook subscribes to; `test` without it. Its body says `"test": true`.
    #[arg(long, value_parser = PossibleValuesParser::new(Webhook::EVENTS))]
    event: Option<String>,
    /// Seconds to wait for the first attempt; 0 does not wait.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=600))]
    wait: u64,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Recover {
    /// Id of the webhook, or a part of its destination that no other has.
    #[arg(value_parser = Named::webhook)]
    webhook: Named,
    /// A time, a date (UTC), or a span until now: 2027-01-31T00:00:00Z, 2027-01-31, yesterday, 90s, 15m, 6h, 2d.
    #[arg(long, value_parser = read::moment, allow_hyphen_values = true)]
    since: DateTime<Utc>,
    /// End as soon as the job is accepted, and print its id.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    remote: Remote,
}

impl WebhookCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run().await,
            Self::Create(create) => create.run().await,
            Self::Try(tried) => tried.run().await,
            Self::Rotate(One { webhook, remote }) => {
                let client = remote.client()?;
                let id = webhook.id(&client).await?;
                with_secret(&client.rotate_webhook_secret(id).answer().await?, remote.json)
            }
            Self::Activate(one) => one.switch(true).await,
            Self::Deactivate(one) => one.switch(false).await,
            Self::Delete(One { webhook, remote }) => {
                let client = remote.client()?;
                let id = webhook.id(&client).await?;
                client.delete_webhook(id).send().await?;
                done(id, "deleted", remote.json)
            }
            Self::Listen(listen) => listen.run().await,
            Self::Test(test) => test.run().await,
            Self::Recover(recover) => recover.run().await,
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<Exit> {
        let eshop = Named::id_of(self.eshop.as_ref(), &self.part.client()?).await?;
        let mut query = ListQuery::new().equal("eshop", eshop).equal("health", self.health);
        // a table has the name of the e-shop; JSON and CSV are the record
        if !self.part.is_as_sent() {
            query = query.nested();
        }
        let columns = [
            ("id", "id"),
            ("organisation", "organisation.name"),
            ("e-shop", "eshop.name"),
            ("event", "event|events"),
            ("active", "active"),
            ("health", "health"),
            ("held until", "heldUntil"),
            ("destination", "destination"),
            ("disabled because", "disabledReason"),
        ];
        self.part.write(query, Client::webhooks, &columns).await
    }
}

impl Choice {
    pub(super) async fn of(self, client: &Client) -> anyhow::Result<EventChoice> {
        let Self { eshop, organisation, events, criteria, select } = self;
        let eshop = Named::id_of(eshop.as_ref(), client).await?;
        let organisation = Named::id_of(organisation.as_ref(), client).await?;
        let (event, events) = match <[String; 1]>::try_from(events) {
            Ok([one]) => (Some(one), Vec::new()),
            Err(several) => (None, several),
        };
        Ok(EventChoice { eshop, organisation, event, events, criteria, select })
    }
}

impl Try {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.remote.client()?;
        let trial = WebhookToTry { choice: self.choice.of(&client).await?, since: self.since };
        let answer = client.try_webhook(&trial).answer().await?;
        if self.remote.json {
            output::json(&remote::json(&answer)?)?;
            return Ok(Exit::Done);
        }
        let WebhookTried { looked, matched, examples, .. } = answer.read()?;
        writeln!(stdout(), "{} of the newest {}", HumanCount(matched), counted(looked, "event", "events"))?;
        for example in examples {
            output::json(&example)?;
        }
        Ok(Exit::Done)
    }
}

impl Create {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.remote.client()?;
        let webhook = WebhookToCreate {
            choice: self.choice.of(&client).await?,
            destination: self.destination,
            active: !self.inactive,
            batch: self.batch.map(|max_events| WebhookBatch { max_events, max_wait_ms: self.batch_wait }),
            max_per_second: self.max_per_second,
        };
        with_secret(&client.create_webhook(&webhook).answer().await?, self.remote.json)
    }
}

impl One {
    async fn switch(self, active: bool) -> anyhow::Result<Exit> {
        let client = self.remote.client()?;
        let id = self.webhook.id(&client).await?;
        client.switch_webhook(id, active).send().await?;
        done(id, if active { "active" } else { "inactive" }, self.remote.json)
    }
}

/// Reads JSON.
fn read_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("must be JSON: {error}"))
}

/// Reads a number; of JSON, which has no infinite one.
fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "must be a number".to_owned())
}

/// Writes the secret of a webhook, which no later answer shows.
fn with_secret(answer: &Answer, as_json: bool) -> anyhow::Result<Exit> {
    if as_json {
        output::json(&remote::json(answer)?)?;
        return Ok(Exit::Done);
    }
    let made: CreatedWebhook = answer.read()?;
    let secret = made.secret.as_deref().map_or_else(|| "shown before".to_owned(), table::shown);
    writeln!(stdout(), "{:<10} {}\n{:<10} {secret}", "webhook", made.id, "secret")?;
    Ok(Exit::Done)
}

/// Writes what a webhook is now.
fn done(id: Uuid, state: &str, as_json: bool) -> anyhow::Result<Exit> {
    if as_json {
        output::json(&json!({"id": id, "state": state}))?;
    } else {
        writeln!(stdout(), "webhook {id} is {state}")?;
    }
    Ok(Exit::Done)
}

impl Test {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.remote.client()?;
        let id = self.webhook.id(&client).await?;
        let sent = client.test_webhook(id, self.event.as_deref()).answer().await?;
        let delivery: CreatedDelivery = sent.read()?;
        let webhook = client.webhook(id).send().await?;
        if self.wait == 0 {
            if self.remote.json {
                output::json(&remote::json(&sent)?)?;
            } else if webhook.active {
                writeln!(stdout(), "delivery {} is on its way", delivery.id)?;
            } else {
                writeln!(stdout(), "delivery {} is kept: {INACTIVE}", delivery.id)?;
            }
            return Ok(Exit::Done);
        }
        // an inactive webhook keeps its deliveries, and none is attempted
        let wait = if webhook.active { self.wait } else { 0 };
        let (answer, delivery) = attempted(&client, delivery.id, Duration::from_secs(wait)).await?;
        let Delivery { id, state, attempt_count, .. } = &delivery;
        if self.remote.json {
            output::json(&remote::json(&answer)?)?;
        } else if *state == DeliveryState::Pending && *attempt_count == 0 {
            let why = untried(&client, &client.webhook(webhook.id).send().await?).await?;
            writeln!(stdout(), "delivery {id} is {why}")?;
        } else {
            let last = last_answer(&delivery);
            let calls = counted(*attempt_count, "attempt", "attempts");
            let state = table::shown(&state.to_string());
            writeln!(stdout(), "delivery {id} is {state} after {calls}; {last}")?;
        }
        Ok(if *state == DeliveryState::Delivered { Exit::Done } else { Exit::Failed })
    }
}

/// Why an inactive webhook sends nothing.
const INACTIVE: &str = "the webhook is inactive, and sends it when it is activated";

/// The last answer to a delivery.
fn last_answer(delivery: &Delivery) -> String {
    let last = delivery.attempts.last();
    let or_dash = |text: Option<String>| text.map_or_else(|| "-".to_owned(), |text| table::shown(&text));
    answer_line(
        &or_dash(last.and_then(|attempt| attempt.status).map(|status| status.to_string())),
        &or_dash(last.map(|attempt| attempt.duration_ms.to_string())),
        &or_dash(last.and_then(|attempt| attempt.error.clone())),
    )
}

/// What keeps a webhook from sending anything.
fn kept(webhook: &Webhook) -> Option<String> {
    if !webhook.active {
        return Some(format!("kept: {INACTIVE}"));
    }
    let until = webhook.held_until?.to_rfc3339_opts(SecondsFormat::Secs, true);
    Some(format!("held until {until}, as the destination asked"))
}

/// Why a test was not attempted: from the state of the webhook, and the last answer to an earlier delivery.
async fn untried(client: &Client, webhook: &Webhook) -> Result<String, Error> {
    if let Some(why) = kept(webhook) {
        return Ok(why);
    }
    let no_worker = || "pending: no worker has tried it yet".to_owned();
    if webhook.health != Health::Failing {
        return Ok(no_worker());
    }
    let query = ListQuery::new()
        .filter("webhook", "eq", webhook.id)
        .filter("state", "eq", DeliveryState::Pending)
        .filter("attemptCount", "gt", 0)
        .sort("createdAt", Order::Ascending)
        .limit(1);
    let Some(first) = client.deliveries(&query).send().await?.results.into_iter().next() else {
        return Ok(no_worker());
    };
    let first = client.delivery(first.id).send().await?;
    let (id, answer) = (first.id, last_answer(&first));
    Ok(if webhook.ordered {
        format!("behind delivery {id}, since the webhook is ordered; the last attempt of that: {answer}")
    } else {
        format!("held by the breaker: the destination fails, and delivery {id} is tried first; {answer}")
    })
}

/// The delivery after an attempt, or its current state when the time is over.
async fn attempted(client: &Client, id: Uuid, wait: Duration) -> Result<(Answer, Delivery), Error> {
    let (mut look_again, longest) = LOOK_AGAIN;
    let until = Instant::now() + wait;
    loop {
        let answer = client.delivery(id).answer().await?;
        let delivery: Delivery = answer.read()?;
        if delivery.attempt_count > 0 || delivery.state != DeliveryState::Pending || Instant::now() >= until {
            return Ok((answer, delivery));
        }
        tokio::time::sleep(look_again).await;
        look_again = longest.min(look_again * 3 / 2);
    }
}

impl Recover {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.remote.client()?;
        let answer = client.recover_webhook(self.webhook.id(&client).await?, self.since).answer().await?;
        let job: Job = answer.read()?;
        followed(&client, &answer, job.id, self.detach, self.remote.json).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_not_sent_says_what_it_waits_for() {
        let webhook = |active: bool, held_until: Option<&str>| {
            let of = json!({"id": Uuid::nil(), "eshop": Uuid::nil(), "event": "*", "destination": "https://shop.example/",
                            "active": active, "health": "healthy", "disabledReason": null, "heldUntil": held_until,
                            "ordered": false});
            kept(&serde_json::from_value(of).unwrap())
        };
        let until = Some("2026-01-31T12:30:00.654321+00:00");
        let held = "held until 2026-01-31T12:30:00Z, as the destination asked";
        assert_eq!(webhook(true, until).as_deref(), Some(held));
        assert_eq!(webhook(false, until), Some(format!("kept: {INACTIVE}")));
        assert_eq!(webhook(true, None), None);
    }
}
