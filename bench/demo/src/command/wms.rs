//! A warehouse for manual tests: takes orders, shows each call, and works on the orders and reports that, if it is given an access
//! token.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use longshore_testkit::wms::{Asked, Breach, Manner, Step, Wms};
use serde_json::Value;
use uuid::Uuid;

use crate::api::Api;

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
    /// Works on orders, and reports it to the service at this URL.
    #[arg(long, value_name = "URL", requires_all = ["token", "wms"])]
    news: Option<String>,
    /// Access token with the role warehouse.
    #[arg(long, env = "LONGSHORE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Id of the wms of the token.
    #[arg(long)]
    wms: Option<Uuid>,
    /// Milliseconds from one step of an order to the next: it is picked, packed, sent and delivered.
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pace: u64,
    /// Reports only after so many steps, so late.
    #[arg(long, value_name = "STEPS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    late: u64,
    /// How reports are sent.
    #[arg(long, value_enum, default_value_t)]
    manner: Manner,
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
        let reporter = self.reporter()?;
        println!("waiting for orders at {} (Ctrl-C ends)", fake.url());
        let (mut shown, mut steps) = (0, 0_u64);
        let mut pace = tokio::time::interval(Duration::from_millis(self.pace));
        loop {
            tokio::select! {
                () = arrival(&fake, shown + 1) => {}
                _ = pace.tick(), if reporter.is_some() => {
                    steps += 1;
                    work(&fake);
                    if let Some(reporter) = reporter.as_ref().filter(|_| steps.is_multiple_of(self.late)) {
                        reporter.report(&fake, self.manner).await;
                    }
                }
                stopped = tokio::signal::ctrl_c() => return Ok(stopped?),
            }
            for asked in fake.asked().iter().skip(shown) {
                shown += 1;
                show(&fake, asked);
            }
        }
    }
}

/// Where it reports.
struct Reporter {
    api: Api,
    wms: Uuid,
}

impl Warehouse {
    fn reporter(&self) -> anyhow::Result<Option<Reporter>> {
        let (Some(url), Some(token), Some(wms)) = (&self.news, &self.token, self.wms) else {
            return Ok(None);
        };
        Ok(Some(Reporter { api: Api::new(url, token)?, wms }))
    }
}

impl Reporter {
    /// Sends what was not sent yet. What is not taken is sent again with the next step.
    async fn report(&self, fake: &Wms, manner: Manner) {
        let send = async |news: Vec<Value>| {
            let job = self.api.report_news(self.wms, &news).await?;
            let progress = &job["progress"];
            println!(
                "NEWS  {}: {} taken, {} known, {} refused",
                news.len(),
                progress["changed"],
                progress["unchanged"],
                progress["failed"]
            );
            for error in job["errors"].as_array().into_iter().flatten() {
                println!("      {} {}: {}", error["key"], error["code"], error["message"]);
            }
            anyhow::Ok(())
        };
        if let Err(error) = fake.report(manner, send).await {
            println!("NEWS  NOT SENT: {error:#}");
        }
    }
}

/// Takes the next step of each order.
fn work(fake: &Wms) {
    for (id, entry) in fake.book() {
        if let Some(step) = Step::after(entry.stage) {
            // a call may have changed it in the meantime
            _ = fake.step(id, step);
        }
    }
}

/// Waits until this many calls have come.
async fn arrival(fake: &Wms, calls: usize) {
    const A_DAY: Duration = Duration::from_hours(24);
    while fake.wait_until(A_DAY, move |_, asked| asked.len() >= calls).await.is_err() {}
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
