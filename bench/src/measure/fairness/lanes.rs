//! Beside webhooks whose destinations hang or are slow: how long changes take to reach the webhooks of
//! another organisation, from the first moment on. Also the memory of the worker beside these, and beside
//! answers that never end.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use longshore_testkit::receiver::{Answer, Receiver};
use longshore_testkit::stack::Stack;
use tokio::task::JoinSet;

use crate::measure::process::{forget_peak, peak};
use crate::measure::{Effort, Floor, Reach, Row, percentile};
use longshore_demo::site::Site;

/// Webhooks of the two organisations.
const SLOW: usize = 900;
const HEALTHY: usize = 20;

/// Changes of the other organisation, one after another, for twenty seconds, which is longer than a call may
/// hang.
const CHANGES: usize = 200;
const EVERY: Duration = Duration::from_millis(100);

/// A delivery that takes longer is lost.
const LOST: Duration = Duration::from_mins(3);

/// Webhooks created in parallel.
const AT_ONCE: usize = 16;

const QUIET: &str = "the same without other deliveries";

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let other = Site::on(stack, "healthy").await?;
    let receiver = Receiver::start().await?;
    subscribe(&other, HEALTHY, |n| receiver.url(&format!("/{n}"))).await?;
    // a warm-up, so that statements are prepared and connections open
    receipts(&other, &receiver, "warm", 20).await?;
    let quiet = receipts(&other, &receiver, "quiet", effort.of(CHANGES)).await?;
    let mut rows = Vec::new();
    let worker = stack.worker_pid()?;
    forget_peak(worker)?;
    for (what, answer) in [
        ("hang", Answer::Hang),
        ("answer after 14 s", Answer::After(Duration::from_secs(14), Box::new(Answer::Status(204)))),
        ("answer without an end", Answer::Flood),
        ("answer a byte at a time", Answer::Drip),
    ] {
        let slow = Site::on(stack, &format!("that {what}")).await?;
        let destination = Receiver::counting_for_many().await?;
        destination.answer_all(answer);
        // many hosts, as many shops would have
        subscribe(&slow, SLOW, |n| {
            format!("{}{n}", destination.url_of_host(u8::try_from(n % 250).unwrap_or(0) + 1))
        })
        .await?;
        // all of them have deliveries, and get new ones
        let telling = tokio::spawn({
            let (api, organisation, eshop) = (slow.api.clone(), slow.organisation, slow.eshop);
            async move {
                for n in 0.. {
                    api.create_product(organisation, eshop, &format!("S-{n}")).await?;
                    tokio::time::sleep(Duration::from_secs(5)).await;
                }
                anyhow::Ok(())
            }
        });
        let beside = receipts(&other, &receiver, what, effort.of(CHANGES)).await;
        telling.abort();
        let beside = beside?;
        for (percent, most) in [(50, 50.0), (99, 500.0)] {
            let what = format!("change to webhook beside {SLOW} of another that {what}, p{percent}");
            let floor = Floor::of(percentile(&quiet, percent), QUIET);
            rows.push(Row::new(what, percentile(&beside, percent), "ms", Some(floor), Reach::AtMost(most)));
        }
    }
    let what = format!("memory of the worker beside {SLOW} destinations of each of these 4 kinds");
    rows.push(Row::absolute(what, peak(worker)?, "MiB", Reach::AtMost(256.0)));
    Ok(rows)
}

async fn subscribe(site: &Site, webhooks: usize, url: impl Fn(usize) -> String) -> anyhow::Result<()> {
    let mut creating = JoinSet::new();
    for n in 0..webhooks {
        if creating.len() >= AT_ONCE {
            creating.join_next().await.context("none is created")???;
        }
        let (api, eshop, url) = (site.api.clone(), site.eshop, url(n));
        creating.spawn(async move { api.create_webhook(eshop, "product_change", &url).await.map(drop) });
    }
    creating.join_all().await.into_iter().collect()
}

/// How long each of several changes takes to reach each webhook, in milliseconds, sorted.
async fn receipts(site: &Site, receiver: &Receiver, name: &str, changes: usize) -> anyhow::Result<Vec<f64>> {
    receiver.forget();
    let mut beat = tokio::time::interval(EVERY);
    let (mut started, mut posts) = (HashMap::new(), JoinSet::new());
    for n in 0..changes.max(1) {
        beat.tick().await;
        let sku = format!("{name}-{n}");
        started.insert(sku.clone(), Instant::now());
        let (api, organisation, eshop) = (site.api.clone(), site.organisation, site.eshop);
        posts.spawn(async move { api.create_product(organisation, eshop, &sku).await });
    }
    posts.join_all().await.into_iter().collect::<anyhow::Result<Vec<()>>>()?;
    let all = u64::try_from(started.len() * HEALTHY)?;
    receiver.wait_for(all, LOST).await?;
    let mut milliseconds = Vec::new();
    for receipt in receiver.take() {
        let body = receipt.json()?;
        let sku = body["data"]["productSku"].as_str().context("a webhook without its productSku")?;
        let started = started.get(sku).context("a webhook of another change")?;
        milliseconds.push(1_000.0 * receipt.at.duration_since(*started).as_secs_f64());
    }
    milliseconds.sort_by(f64::total_cmp);
    Ok(milliseconds)
}
