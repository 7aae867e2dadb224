//! A warehouse for manual tests: takes orders, shows each call, and works on what it has.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use longshore_testkit::client;
use longshore_testkit::wms::{Asked, Breach, Manner, Stage, Step, Wms};
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

const NEWS: &str = "/api/partner-integration/wms/sync/news";

#[derive(Args, Debug)]
pub(super) struct Warehouse {
    /// Address and port to listen on.
    #[arg(long, default_value = "127.0.0.1:9095")]
    bind: SocketAddr,
    /// Secret of the setting of the wms, as it was shown: `whsec_…`. Without it, signatures are not checked.
    #[arg(long)]
    secret: Option<String>,
    /// Refuses orders of this SKU with 422.
    #[arg(long)]
    refuse_sku: Vec<String>,
    /// Breaks a rule of the hand-over.
    #[arg(long = "break", value_enum)]
    breach: Option<Breach>,
    /// Token of the role `warehouse`. With it, orders are picked, packed, shipped and delivered, and Longshore gets the news.
    #[arg(long, env = "WAREHOUSE_TOKEN", hide_env_values = true, requires = "wms")]
    token: Option<String>,
    /// Id of the wms, for news.
    #[arg(long)]
    wms: Option<Uuid>,
    /// Base URL of the service, for news.
    #[arg(long, env = "BASE_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// Seconds between the steps of an order: time to cancel it.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pace: u64,
}

/// Where news go.
struct Reporter {
    http: reqwest::Client,
    url: String,
    token: String,
    wms: Uuid,
}

impl Warehouse {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let fake = Wms::start_at(self.bind).await?;
        if let Some(secret) = &self.secret {
            fake.trust(secret)?;
        }
        for sku in &self.refuse_sku {
            fake.refuse_sku(sku);
        }
        if let Some(breach) = self.breach {
            fake.break_rule(breach);
        }
        let reporter = match (&self.token, self.wms) {
            (Some(token), Some(wms)) => {
                let url = format!("{}{NEWS}", self.url.trim_end_matches('/'));
                Some(Reporter { http: client::outside()?, url, token: token.clone(), wms })
            }
            _ => None,
        };
        println!("waiting for orders at {} (Ctrl-C ends)", fake.url());
        let mut ticks = tokio::time::interval(Duration::from_secs(self.pace));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut shown = 0;
        loop {
            tokio::select! {
                () = arrival(&fake, shown + 1) => {}
                _ = ticks.tick(), if reporter.is_some() => {
                    work(&fake);
                }
                stopped = tokio::signal::ctrl_c() => return Ok(stopped?),
            }
            for asked in fake.asked().iter().skip(shown) {
                shown += 1;
                show(&fake, asked);
            }
            if let Some(reporter) = &reporter
                && let Err(error) = fake.report(Manner::InOrder, async |news| reporter.send(news).await).await
            {
                println!("news are kept and sent later: {error:#}");
            }
        }
    }
}

/// Waits until this many calls have come.
async fn arrival(fake: &Wms, calls: usize) {
    const A_DAY: Duration = Duration::from_hours(24);
    while fake.wait_until(A_DAY, move |_, asked| asked.len() >= calls).await.is_err() {}
}

/// Every order takes its next step.
fn work(fake: &Wms) {
    for (expedition, entry) in fake.book() {
        let step = match entry.stage {
            Stage::Taken => Step::Pick,
            Stage::Picked => Step::Pack,
            Stage::Packed => Step::Ship,
            Stage::Shipped => Step::Deliver,
            _ => continue,
        };
        // A withdrawal may have come in between.
        if let Ok(news) = fake.step(expedition, step) {
            println!(
                "news  {expedition}.{}  {}",
                news["number"],
                news["status"].as_str().unwrap_or_default()
            );
        }
    }
}

fn show(fake: &Wms, asked: &Asked) {
    let Asked { method, expedition, number, status, .. } = asked;
    let Some(expedition) = expedition else {
        println!("{method}  NOT READ  {status}: its signature or its form is wrong");
        return;
    };
    let order = fake.order(*expedition);
    let pieces = order.filter(|_| method == "PUT").map(|entry| contents(&entry.order)).unwrap_or_default();
    println!("{method}  {expedition}.{number}  {status}{pieces}");
}

/// The number of an order and its items, in a few words.
fn contents(order: &Value) -> String {
    let items = order["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let item = |item: &Value| {
        format!("{} x {}", item["quantity"], item["productSku"].as_str().unwrap_or("without SKU"))
    };
    let items: Vec<String> = items.iter().map(item).collect();
    format!("  {}: {}", order["orderNumber"].as_str().unwrap_or("without number"), items.join(", "))
}

impl Reporter {
    async fn send(&self, news: Vec<Value>) -> anyhow::Result<()> {
        let count = news.len();
        let call = self.http.post(&self.url).bearer_auth(&self.token);
        let call = call.header("content-type", "application/json").header("prefer", "wait=30");
        let answer = call.body(json!({"wms": self.wms, "news": news}).to_string()).send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        if !status.is_success() {
            bail!("{status}: {text}");
        }
        let job: Value = serde_json::from_str(&text).unwrap_or_default();
        if job["progress"]["failed"].as_u64().is_some_and(|failed| failed > 0) {
            println!("{} of {count} news were refused; see job {}", job["progress"]["failed"], job["id"]);
        }
        Ok(())
    }
}
