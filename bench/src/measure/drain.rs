//! How fast due deliveries leave, one lane to one sink, by the side of a bare loop of POSTs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use uuid::Uuid;

use super::{Effort, Reach, Row, median};
use crate::catalogue::Catalogue;
use crate::client;
use crate::proof::Site;
use crate::receiver::Receiver;
use crate::stack::Stack;

/// Deliveries of a run.
const DELIVERIES: usize = 20_000;

/// Requests that the bare loop has in flight, as many as a lane has.
const IN_FLIGHT: usize = 16;

/// A delivery as the bare loop sends it: a body and headers of the usual size.
const BODY: &str = r#"{"id":"0197f2a0-0000-7000-8000-000000000000","type":"product_change","timestamp":"2026-01-01T00:00:00.000000Z","data":{"id":"0197f2a0-0000-7000-8000-000000000000","productSku":"MU-0000000","name":"Made up product","active":false}}"#;

/// A run that takes longer has hung.
const HUNG: Duration = Duration::from_mins(3);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let deliveries = DELIVERIES / effort.divisor;
    let site = stack.site("drain").await?;
    let job = site.api.sync_products(Catalogue::made_up(deliveries).body(site.eshop)).await?;
    site.api.job_ended(job.id, HUNG).await?;
    let products = site.api.products(site.organisation).await?;

    // The first run of each only warms up. Ours and the floor take turns, so that a slow minute of the machine
    // hits both.
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for run in 0..=effort.runs {
        let floor = bare_loop(deliveries).await?;
        let figure = drain(&site, &products, run % 2 == 1).await?;
        if run > 0 {
            floors.push(floor);
            ours.push(figure);
        }
    }
    let what = format!("webhook drain, {deliveries} due deliveries, 1 lane");
    Ok(vec![Row::relative(what, median(ours), "1/s", median(floors), Reach::RatioAtLeast(0.5))])
}

/// Deliveries a second: all products are switched while their webhook rests, then it is let go.
async fn drain(site: &Site, products: &[Uuid], on: bool) -> anyhow::Result<f64> {
    let receiver = Receiver::counting().await?;
    let webhook = site.api.create_webhook(site.eshop, "product_change", &receiver.url("/")).await?;
    site.api.set_webhook_active(webhook.id, false).await?;
    let job = site.api.switch_products(on, products).await?;
    site.api.job_ended(job.id, HUNG).await?;
    let started = Instant::now();
    site.api.set_webhook_active(webhook.id, true).await?;
    receiver.wait_for_ids(products.len(), HUNG).await?;
    let rate = rate(products.len(), started, &receiver)?;
    site.api.delete_webhook(webhook.id).await?;
    Ok(rate)
}

/// The floor: POSTs a second by a loop that does nothing else.
async fn bare_loop(requests: usize) -> anyhow::Result<f64> {
    let receiver = Receiver::counting().await?;
    let (client, url) = (client::outside()?, receiver.url("/"));
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    let send = async || {
        while let n @ 0.. = next.fetch_add(1, Ordering::Relaxed)
            && n < requests
        {
            let request = client.post(&url).header("webhook-id", format!("msg_{n:032}"));
            let request = request.header("webhook-timestamp", "1767225600");
            let request =
                request.header("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
            let request = request.header("content-type", "application/json");
            request.body(Bytes::from_static(BODY.as_bytes())).send().await?.error_for_status()?;
        }
        anyhow::Ok(())
    };
    futures::future::try_join_all((0..IN_FLIGHT).map(|_| send())).await?;
    rate(requests, started, &receiver)
}

fn rate(count: usize, started: Instant, receiver: &Receiver) -> anyhow::Result<f64> {
    let took = receiver.latest().context("nothing came")?.duration_since(started);
    Ok(f64::from(u32::try_from(count)?) / took.as_secs_f64())
}
