//! A warehouse for manual tests: takes orders, and shows each call.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use longshore_testkit::wms::{Asked, Breach, Wms};
use serde_json::Value;

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
        println!("waiting for orders at {} (Ctrl-C ends)", fake.url());
        let mut shown = 0;
        loop {
            tokio::select! {
                () = arrival(&fake, shown + 1) => {}
                stopped = tokio::signal::ctrl_c() => return Ok(stopped?),
            }
            for asked in fake.asked().iter().skip(shown) {
                shown += 1;
                show(&fake, asked);
            }
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
