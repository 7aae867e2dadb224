//! The time from the POST of a product to the receipt of its webhook, at a steady rate, compared with a bare
//! chain of the same parts.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use longshore_testkit::client;
use longshore_testkit::receiver::Receiver;
use longshore_testkit::stack::Stack;
use serde_json::json;

use super::floor::Psql;
use super::{Effort, Floor, Reach, Row, percentile};
use crate::bare;
use crate::bare::chain;
use crate::site::Site;

/// Products of a run.
const PRODUCTS: usize = 1_000;

/// Products of the warm-up, so that statements are prepared and connections open.
const WARM_UP: usize = 100;

/// The interval of products: fifty per second. If one is late, the next one is not.
const EVERY: Duration = Duration::from_millis(20);

/// A delivery that takes longer is lost.
const LOST: Duration = Duration::from_secs(30);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = WARM_UP + effort.of(PRODUCTS);
    let floors = {
        Psql::connect(stack).await?.run(chain::TABLE).await?;
        let receiver = Receiver::start().await?;
        let (url, _process) = bare::start(stack, &["chain", "--receiver", &receiver.url("/")]).await?;
        let http = client::outside()?;
        paced(&receiver, count, |sku| {
            let body = json!({"data": {"productSku": sku}}).to_string();
            let post = http.post(&url).body(body).send();
            async { post.await?.error_for_status().map(drop).map_err(anyhow::Error::from) }
        })
        .await?
    };
    let site = Site::on(stack, "latency").await?;
    // The sender cannot know the product of a webhook id, so whole requests are kept.
    let receiver = Receiver::start().await?;
    let webhook = site.api.create_webhook(site.eshop, "product_change", &receiver.url("/")).await?;
    let ours = paced(&receiver, count, |sku| {
        let (api, organisation, eshop) = (site.api.clone(), site.organisation, site.eshop);
        async move { api.create_product(organisation, eshop, &sku).await }
    })
    .await?;
    site.api.delete_webhook(webhook.id).await?;
    Ok([(50, 2.0), (99, 6.0)]
        .map(|(percent, most)| {
            let what = format!("POST of a product to its webhook, 50 a second, p{percent}");
            let is = "a bare chain of axum, Postgres, Redis, Postgres and reqwest";
            let floor = Floor { figure: percentile(&floors, percent), is };
            Row::new(what, percentile(&ours, percent), "ms", Some(floor), Reach::AtMost(most))
        })
        .into())
}

/// Posts products at a steady rate; returns how long each webhook took, in milliseconds, sorted.
async fn paced<P>(receiver: &Receiver, count: usize, post: impl Fn(String) -> P) -> anyhow::Result<Vec<f64>>
where
    P: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let mut beat = tokio::time::interval(EVERY);
    let mut posts = tokio::task::JoinSet::new();
    for n in 0..count {
        beat.tick().await;
        let (sku, started) = (format!("L-{n}"), Instant::now());
        let posted = post(sku.clone());
        posts.spawn(async move { posted.await.map(|()| (sku, started)) });
    }
    let started = posts.join_all().await.into_iter().collect::<anyhow::Result<HashMap<_, _>>>()?;
    receiver.wait_for_ids(started.len(), LOST).await?;
    let mut milliseconds = latencies(receiver, &started)?;
    milliseconds.sort_by(f64::total_cmp);
    Ok(milliseconds)
}

/// How long the webhook of each product took, in milliseconds, without the warm-up.
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
