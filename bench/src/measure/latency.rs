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
use longshore_demo::site::Site;

/// Products of a run.
const PRODUCTS: usize = 1_000;

/// Rounds of the service, each after one of the floor.
const ROUNDS: usize = 4;

/// Records of the warm-up of a round, so that statements are prepared and connections open.
const WARM_UP: usize = 100;

/// What the floor is.
pub(super) const CHAIN: &str = "a bare chain of axum, Postgres, Redis, Postgres and reqwest";

/// The interval of records: fifty per second. If one is late, the next one is not.
const EVERY: Duration = Duration::from_millis(20);

/// A delivery that takes longer is lost.
const LOST: Duration = Duration::from_secs(30);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let site = Site::on(stack, "latency").await?;
    // The sender cannot know the product of a webhook id, so whole requests are kept.
    let receiver = Receiver::start().await?;
    let webhook = site.api.create_webhook(site.eshop, "product_change", &receiver.url("/")).await?;
    let post = |_: usize, sku: String| {
        let (api, organisation, eshop) = (site.api.clone(), site.organisation, site.eshop);
        async move { api.create_product(organisation, eshop, &sku).await }
    };
    let taken = by_turns(stack, &receiver, effort.of(PRODUCTS), "productSku", post).await?;
    site.api.delete_webhook(webhook.id).await?;
    Ok([(50, 2.0), (99, 6.0)]
        .map(|(percent, most)| {
            let what = format!("POST of a product to its webhook, 50 a second, p{percent}");
            let (ours, floor) = taken.percentile(percent);
            Row::relative(what, ours, "ms", floor, Reach::AtMost(most))
        })
        .into())
}

/// How long webhooks took, in milliseconds, sorted.
pub(super) struct Taken {
    ours: Vec<f64>,
    floors: Vec<f64>,
}

impl Taken {
    /// A percentile of the service and of the floor.
    pub(super) fn percentile(&self, percent: usize) -> (f64, Floor) {
        (percentile(&self.ours, percent), Floor::of(percentile(&self.floors, percent), CHAIN))
    }
}

/// Posts records to the service and through a bare chain by turns, at a steady rate. A webhook has the name of its record in a
/// member of `data`; `post` gets the place of a record in its round, and its name.
pub(super) async fn by_turns<P>(
    stack: &Stack,
    receiver: &Receiver,
    count: usize,
    member: &str,
    post: impl Fn(usize, String) -> P,
) -> anyhow::Result<Taken>
where
    P: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    Psql::connect(stack).await?.run(chain::TABLE).await?;
    let end = Receiver::start().await?;
    let (url, _process) = bare::start(stack, &["chain", "--receiver", &end.url("/")]).await?;
    let http = client::outside()?;
    let through_chain = |_: usize, name: String| {
        let body = json!({"data": {"name": name}}).to_string();
        let post = http.post(&url).body(body).send();
        async { post.await?.error_for_status().map(drop).map_err(anyhow::Error::from) }
    };
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        floors.extend(paced(&end, round, count / ROUNDS, "name", through_chain).await?);
        ours.extend(paced(receiver, round, count / ROUNDS, member, &post).await?);
    }
    floors.sort_by(f64::total_cmp);
    ours.sort_by(f64::total_cmp);
    Ok(Taken { ours, floors })
}

/// Posts the records of a round after a warm-up; returns how long each webhook took, in milliseconds.
async fn paced<P>(
    receiver: &Receiver,
    round: usize,
    count: usize,
    member: &str,
    post: impl Fn(usize, String) -> P,
) -> anyhow::Result<Vec<f64>>
where
    P: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let name = |n: usize| format!("L-{round}-{n}");
    let mut beat = tokio::time::interval(EVERY);
    let mut posts = tokio::task::JoinSet::new();
    for n in 0..WARM_UP + count {
        beat.tick().await;
        let started = Instant::now();
        let posted = post(n, name(n));
        posts.spawn(async move { posted.await.map(|()| (n, started)) });
    }
    let started = posts.join_all().await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    // its ids are those of all rounds so far
    receiver.wait_for_ids((round + 1) * started.len(), LOST).await?;
    let mut first: HashMap<String, Instant> = HashMap::new();
    for receipt in receiver.take() {
        let body = receipt.json()?;
        let name = body["data"][member].as_str().context("a webhook does not name its record")?;
        first.entry(name.to_owned()).or_insert(receipt.at);
    }
    let measured = started.into_iter().filter(|(n, _)| *n >= WARM_UP);
    measured
        .map(|(n, started)| {
            let arrived = first.get(&name(n)).context("a change of a record did not arrive")?;
            Ok(1_000.0 * arrived.duration_since(started).as_secs_f64())
        })
        .collect()
}
