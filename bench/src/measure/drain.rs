//! How fast due deliveries leave, by one lane and by a hundred, by the side of a bare loop of POSTs.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use futures::future::try_join_all;
use uuid::Uuid;

use super::load::{self, runs};
use super::{Effort, Floor, Reach, Row, median};
use crate::catalogue::Catalogue;
use crate::client;
use crate::proof::Site;
use crate::receiver::{Answer, Receiver};
use crate::stack::Stack;

/// Deliveries of a run, over all lanes.
const DELIVERIES: usize = 50_000;

/// Lanes of the second row, each to a host of its own.
const LANES: u8 = 100;

/// Requests that the bare loop has in flight for each lane, as many as a lane has.
const IN_FLIGHT: usize = 16;

/// A delivery as the bare loop sends it: a body and headers of the usual size.
const BODY: &str = r#"{"id":"0197f2a0-0000-7000-8000-000000000000","type":"product_change","timestamp":"2026-01-01T00:00:00.000000Z","data":{"id":"0197f2a0-0000-7000-8000-000000000000","productSku":"MU-0000000","name":"Made up product","active":false}}"#;

/// A run that takes longer has hung.
pub(super) const HUNG: Duration = Duration::from_mins(3);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let one = lanes(stack, effort, 1).await?;
    let many = lanes(stack, effort, LANES).await?;
    Ok(vec![one, many])
}

async fn lanes(stack: &Stack, effort: Effort, lanes: u8) -> anyhow::Result<Row> {
    let products = effort.of(DELIVERIES) / usize::from(lanes);
    let deliveries = products * usize::from(lanes);
    let site = stack.site("drain").await?;
    let job = site.api.sync_products(Catalogue::made_up(products).body(site.eshop)).await?;
    site.api.job_ended(job.id, HUNG).await?;
    let products = site.api.products(site.organisation).await?;

    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for run in runs(effort) {
        let floor = bare_loop(deliveries, lanes).await?;
        let figure = drain(&site, &products, lanes, run % 2 == 1, None).await?;
        if run > 0 {
            floors.push(floor);
            ours.push(figure);
        }
    }
    let floor = Floor { figure: median(floors), is: "a bare reqwest loop, 16 requests in flight a lane" };
    let what = format!("webhook drain, {deliveries} due deliveries, lanes: {lanes}");
    Ok(Row::relative(what, median(ours), "1/s", floor, Reach::RatioAtLeast(0.6)))
}

/// Deliveries a second: all products are switched while their webhooks rest, then those are let go. Destinations answer 204
/// at once, unless told otherwise.
pub(super) async fn drain(
    site: &Site,
    products: &[Uuid],
    lanes: u8,
    on: bool,
    answer: Option<Answer>,
) -> anyhow::Result<f64> {
    let receiver = Receiver::counting_for_many().await?;
    if let Some(answer) = answer {
        receiver.answer_all(answer);
    }
    let create = |lane: u8| {
        let url = receiver.url_of_host(lane + 1);
        async move { site.api.create_webhook(site.eshop, "product_change", &url).await }
    };
    let webhooks = try_join_all((0..lanes).map(create)).await?;
    let set_active = async |active: bool| {
        try_join_all(webhooks.iter().map(|webhook| site.api.set_webhook_active(webhook.id, active))).await
    };
    set_active(false).await?;
    let job = site.api.switch_products(on, products).await?;
    site.api.job_ended(job.id, HUNG).await?;
    let deliveries = products.len() * webhooks.len();
    let started = Instant::now();
    set_active(true).await?;
    // one event has the same webhook id for all who hear of it, so requests are what is counted
    receiver.wait_for(deliveries as u64, HUNG).await?;
    let rate = rate(deliveries, started, &receiver)?;
    try_join_all(webhooks.iter().map(|webhook| site.api.delete_webhook(webhook.id))).await?;
    Ok(rate)
}

/// The floor: POSTs a second by a loop that does nothing else.
async fn bare_loop(requests: usize, lanes: u8) -> anyhow::Result<f64> {
    let receiver = Receiver::counting_for_many().await?;
    let client = client::outside()?;
    let urls: Vec<String> = (0..lanes).map(|lane| receiver.url_of_host(lane + 1)).collect();
    let started = Instant::now();
    let send = |n: usize| {
        let request = client.post(&urls[n % urls.len()]).header("webhook-id", format!("msg_{n:032}"));
        let request = request.header("webhook-timestamp", "1767225600");
        let request = request.header("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let request = request.header("content-type", "application/json");
        let sent = request.body(Bytes::from_static(BODY.as_bytes())).send();
        async move {
            sent.await?.error_for_status()?;
            Ok(())
        }
    };
    load::rate(requests, IN_FLIGHT * usize::from(lanes), send).await?;
    rate(requests, started, &receiver)
}

fn rate(count: usize, started: Instant, receiver: &Receiver) -> anyhow::Result<f64> {
    let took = receiver.latest().context("nothing came")?.duration_since(started);
    Ok(f64::from(u32::try_from(count)?) / took.as_secs_f64())
}
