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

/// Records of the warm-up, so that statements are prepared and connections open.
pub(super) const WARM_UP: usize = 100;

/// What the floor is.
pub(super) const CHAIN: &str = "a bare chain of axum, Postgres, Redis, Postgres and reqwest";

/// The interval of records: fifty per second. If one is late, the next one is not.
const EVERY: Duration = Duration::from_millis(20);

/// A delivery that takes longer is lost.
const LOST: Duration = Duration::from_secs(30);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = WARM_UP + effort.of(PRODUCTS);
    let floors = bare_chain(stack, count).await?;
    let site = Site::on(stack, "latency").await?;
    // The sender cannot know the product of a webhook id, so whole requests are kept.
    let receiver = Receiver::start().await?;
    let webhook = site.api.create_webhook(site.eshop, "product_change", &receiver.url("/")).await?;
    let ours = paced(&receiver, count, "productSku", |sku| {
        let (api, organisation, eshop) = (site.api.clone(), site.organisation, site.eshop);
        async move { api.create_product(organisation, eshop, &sku).await }
    })
    .await?;
    site.api.delete_webhook(webhook.id).await?;
    Ok([(50, 2.0), (99, 6.0)]
        .map(|(percent, most)| {
            let what = format!("POST of a product to its webhook, 50 a second, p{percent}");
            let floor = Floor { figure: percentile(&floors, percent), is: CHAIN };
            Row::new(what, percentile(&ours, percent), "ms", Some(floor), Reach::AtMost(most))
        })
        .into())
}

/// How long each post took through a bare chain, in milliseconds, sorted.
pub(super) async fn bare_chain(stack: &Stack, count: usize) -> anyhow::Result<Vec<f64>> {
    Psql::connect(stack).await?.run(chain::TABLE).await?;
    let receiver = Receiver::start().await?;
    let (url, _process) = bare::start(stack, &["chain", "--receiver", &receiver.url("/")]).await?;
    let http = client::outside()?;
    paced(&receiver, count, "name", |name| {
        let body = json!({"data": {"name": name}}).to_string();
        let post = http.post(&url).body(body).send();
        async { post.await?.error_for_status().map(drop).map_err(anyhow::Error::from) }
    })
    .await
}

/// Posts records at a steady rate; returns how long each webhook took, in milliseconds, sorted. A webhook has the name of its
/// record in a member of `data`.
pub(super) async fn paced<P>(
    receiver: &Receiver,
    count: usize,
    member: &str,
    post: impl Fn(String) -> P,
) -> anyhow::Result<Vec<f64>>
where
    P: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let mut beat = tokio::time::interval(EVERY);
    let mut posts = tokio::task::JoinSet::new();
    for n in 0..count {
        beat.tick().await;
        let (name, started) = (format!("L-{n}"), Instant::now());
        let posted = post(name.clone());
        posts.spawn(async move { posted.await.map(|()| (name, started)) });
    }
    let started = posts.join_all().await.into_iter().collect::<anyhow::Result<HashMap<_, _>>>()?;
    receiver.wait_for_ids(started.len(), LOST).await?;
    let mut milliseconds = latencies(receiver, member, &started)?;
    milliseconds.sort_by(f64::total_cmp);
    Ok(milliseconds)
}

/// How long the webhook of each record took, in milliseconds, without the warm-up.
fn latencies(
    receiver: &Receiver,
    member: &str,
    started: &HashMap<String, Instant>,
) -> anyhow::Result<Vec<f64>> {
    let mut first: HashMap<String, Instant> = HashMap::new();
    for receipt in receiver.take() {
        let body = receipt.json()?;
        let name = body["data"][member].as_str().context("a webhook does not name its record")?;
        first.entry(name.to_owned()).or_insert(receipt.at);
    }
    (WARM_UP..started.len())
        .map(|n| {
            let name = format!("L-{n}");
            let (started, arrived) =
                started.get(&name).zip(first.get(&name)).context("a change of a record did not arrive")?;
            Ok(1_000.0 * arrived.duration_since(*started).as_secs_f64())
        })
        .collect()
}
