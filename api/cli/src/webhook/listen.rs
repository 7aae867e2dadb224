//! `longshore webhook listen`: copies of the deliveries of a webhook, for a receiver under development.
//!
//! The service calls public addresses only. So the command asks it for new deliveries, and sends their bodies from here: as the
//! service would, with the same `webhook-id`, and signed with a secret of its own.

use std::collections::HashMap;
use std::io::{Write as _, stderr, stdout};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use longshore_client::{Client, Delivery, ListQuery, Order, Uuid};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use serde_json::json;
use standardwebhooks::Webhook as Signer;

use crate::find::Named;
use crate::remote::Remote;
use crate::{Exit, Unknown, Usage, output, read, table};

/// The wait between two looks for new deliveries.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Looks between two questions whether the webhook is still there: one that was deleted has no deliveries, which is no error.
const LOOKS: u32 = 5;

/// How long the receiver may take, as at the service.
const ANSWER: Duration = Duration::from_secs(15);

/// How far back a look goes: a delivery can be committed after one that was made later.
const LATE: TimeDelta = TimeDelta::minutes(1);

#[derive(Args, Debug)]
pub(crate) struct Listen {
    /// Id of the webhook, or a part of its destination that no other has. It does not have to be active.
    #[arg(value_parser = Named::webhook)]
    webhook: Named,
    /// Where to send copies, such as http://localhost:3000/hooks.
    #[arg(long, value_name = "URL", value_parser = destination)]
    forward_to: reqwest::Url,
    /// Start with the deliveries since a time, a date, or a span until now: 2027-01-31, yesterday, 6h. Without it, only new ones.
    #[arg(long, value_parser = read::moment, allow_hyphen_values = true)]
    since: Option<DateTime<Utc>>,
    /// Secret to sign with (`whsec_…`). Without it, a new one is made and printed.
    #[arg(long, env = "LONGSHORE_WEBHOOK_SECRET", hide_env_values = true)]
    secret: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

fn destination(text: &str) -> Result<reqwest::Url, String> {
    let url = text.parse::<reqwest::Url>().map_err(|error| error.to_string())?;
    if matches!(url.scheme(), "http" | "https") {
        Ok(url)
    } else {
        Err("it must be an http or https URL".to_owned())
    }
}

impl Listen {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let client = self.remote.client()?;
        let id = self.webhook.id(&client).await?;
        client.webhook(id).send().await?;
        let secret = self
            .secret
            .clone()
            .unwrap_or_else(|| format!("whsec_{}", STANDARD.encode(rand::random::<[u8; 32]>())));
        let signer = Signer::new(&secret).map_err(|error| Usage(format!("--secret: {error}")))?;
        let mut seen = Seen::new(id, self.since);
        if self.since.is_none() {
            seen.skip(&client).await?;
        }
        if self.secret.is_none() {
            writeln!(stderr(), "copies are signed with {secret}")?;
        }
        writeln!(stderr(), "listening; end with Ctrl-C")?;
        let forward = Forward {
            http: reqwest::Client::builder().redirect(Policy::none()).timeout(ANSWER).build()?,
            signer,
            to: self.forward_to,
            as_json: self.remote.json,
        };
        tokio::select! {
            ended = forward.all(&client, seen) => ended,
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                Ok(Exit::Done)
            }
        }
    }
}

/// The deliveries of a webhook that were looked at, as far as a look goes back.
struct Seen {
    webhook: Uuid,
    /// Nothing before is looked at.
    from: Option<DateTime<Utc>>,
    newest: Option<DateTime<Utc>>,
    by_id: HashMap<Uuid, DateTime<Utc>>,
}

impl Seen {
    fn new(webhook: Uuid, from: Option<DateTime<Utc>>) -> Self {
        Self { webhook, from, newest: None, by_id: HashMap::new() }
    }

    /// Marks what is there already as seen.
    async fn skip(&mut self, client: &Client) -> anyhow::Result<()> {
        let newest = ListQuery::new()
            .filter("webhook", "eq", self.webhook)
            .sort("createdAt", Order::Descending)
            .limit(1);
        if let Some(newest) = client.deliveries(&newest).send().await?.results.first() {
            self.newest = Some(newest.created_at);
            self.new_ones(client).await?;
        }
        Ok(())
    }

    /// The deliveries that were not seen before, the oldest first.
    async fn new_ones(&mut self, client: &Client) -> anyhow::Result<Vec<Delivery>> {
        let mut query =
            ListQuery::new().filter("webhook", "eq", self.webhook).sort("createdAt", Order::Ascending);
        if let Some(from) = self.from.max(self.newest.map(|newest| newest - LATE)) {
            query = query.filter("createdAt", "gte", from);
        }
        let mut found: Vec<Delivery> = client.pages("/api/webhook-delivery/list", query).all().await?;
        found.retain(|delivery| self.by_id.insert(delivery.id, delivery.created_at).is_none());
        self.newest = self.newest.max(found.last().map(|newest| newest.created_at));
        if let Some(newest) = self.newest {
            self.by_id.retain(|_, at| *at >= newest - LATE);
        }
        Ok(found)
    }
}

struct Forward {
    http: reqwest::Client,
    signer: Signer,
    to: reqwest::Url,
    as_json: bool,
}

impl Forward {
    async fn all(&self, client: &Client, mut seen: Seen) -> anyhow::Result<Exit> {
        loop {
            for _ in 0..LOOKS {
                for delivery in seen.new_ones(client).await? {
                    self.one(client, &delivery).await?;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            client.webhook(seen.webhook).send().await.map_err(|error| match error.status() {
                Some(404 | 410) => Unknown("the webhook was deleted while listening".to_owned()).into(),
                _ => anyhow::Error::from(error),
            })?;
        }
    }

    /// Sends a copy, and writes what was answered.
    async fn one(&self, client: &Client, delivery: &Delivery) -> anyhow::Result<()> {
        let body = client.delivery_body(delivery.id).answer().await?.body().clone();
        let id = delivery.webhook_id.to_string();
        #[expect(
            clippy::disallowed_methods,
            reason = "the receiver compares the time of the signature with its clock"
        )]
        let at = Utc::now().timestamp();
        let signature = self.signer.sign(&id, at, &body).context("the body is not text")?;
        let started = Instant::now();
        let sent = self
            .http
            .post(self.to.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &id)
            .header("webhook-timestamp", at)
            .header("webhook-signature", signature)
            .body(body)
            .send()
            .await;
        let took = started.elapsed().as_millis();
        let status = sent.as_ref().map(|response| response.status().as_u16());
        // ends with its reader
        let mut out = stdout();
        if self.as_json {
            let error = sent.as_ref().err().map(ToString::to_string);
            let line = json!({
                "delivery": delivery.id, "event": delivery.event, "status": status.ok(), "durationMs": took, "error": error,
            });
            writeln!(out, "{}", output::escaped(&line.to_string()))?;
        } else {
            let answered = status.map_or_else(
                |error| format!("no answer: {error:#}"),
                |status| format!("status {status}, {took} ms"),
            );
            writeln!(out, "{}  {}  {}", delivery.id, table::shown(&delivery.event), table::shown(&answered))?;
        }
        Ok(())
    }
}
