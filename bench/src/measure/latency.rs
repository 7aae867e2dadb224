//! From the POST of a product to the receipt of its webhook, at a steady rate.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::{Effort, Reach, Row, percentile};
use crate::receiver::Receiver;
use crate::stack::Stack;

/// Products of a run.
const PRODUCTS: usize = 1_000;

/// Products before it, for what is prepared, cached and connected first.
const WARM_UP: usize = 100;

/// Between two products: fifty a second. When one is late, the next is not.
const EVERY: Duration = Duration::from_millis(20);

/// A webhook that takes longer is not late but lost.
const LOST: Duration = Duration::from_secs(30);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let products = effort.of(PRODUCTS);
    let site = stack.site("latency").await?;
    // Webhook ids do not tell the sender which product a receipt is of; a receipt that is kept whole does.
    let receiver = Receiver::start().await?;
    let webhook = site.api.create_webhook(site.eshop, "product_change", &receiver.url("/")).await?;
    let mut beat = tokio::time::interval(EVERY);
    let mut posts = tokio::task::JoinSet::new();
    for n in 0..WARM_UP + products {
        beat.tick().await;
        let (api, organisation, eshop) = (site.api.clone(), site.organisation, site.eshop);
        posts.spawn(async move {
            let (sku, started) = (format!("L-{n}"), Instant::now());
            api.create_product(organisation, eshop, &sku).await.map(|()| (sku, started))
        });
    }
    let started = posts.join_all().await.into_iter().collect::<anyhow::Result<HashMap<_, _>>>()?;
    receiver.wait_for_ids(started.len(), LOST).await?;
    site.api.delete_webhook(webhook.id).await?;
    let mut milliseconds = latencies(&receiver, &started)?;
    milliseconds.sort_by(f64::total_cmp);
    Ok([(50, 2.0), (99, 6.0)]
        .map(|(percent, most)| {
            let what = format!("POST of a product to its webhook, 50 a second, p{percent}");
            Row::absolute(what, percentile(&milliseconds, percent), "ms", Reach::AtMost(most))
        })
        .into())
}

/// How long each product took to be told of, in milliseconds, without those that only warmed up.
fn latencies(receiver: &Receiver, started: &HashMap<String, Instant>) -> anyhow::Result<Vec<f64>> {
    let mut first: HashMap<String, Instant> = HashMap::new();
    for receipt in receiver.take() {
        let body = receipt.json()?;
        let sku = body["data"]["productSku"].as_str().context("a webhook without its productSku")?;
        first.entry(sku.to_owned()).or_insert(receipt.at);
    }
    (WARM_UP..started.len())
        .map(|n| {
            let sku = format!("L-{n}");
            let (started, arrived) =
                started.get(&sku).zip(first.get(&sku)).context("a product was not told of")?;
            Ok(1_000.0 * arrived.duration_since(*started).as_secs_f64())
        })
        .collect()
}
