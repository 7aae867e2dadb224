//! How fast due deliveries are sent, by one lane and by a hundred, compared with a bare loop of POSTs, and
//! the resources they use.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures::future::try_join_all;
use longshore_testkit::client;
use longshore_testkit::receiver::{Answer, Receiver};
use longshore_testkit::stack::Stack;
use serde_json::{Value, json};
use uuid::Uuid;

use super::load::{self, runs};
use super::meter::{self, Meter, Taken};
use super::{Effort, Floor, Reach, Row, median};
use longshore_demo::api::Webhook;
use longshore_demo::catalogue::Catalogue;
use longshore_demo::site::Site;

/// Deliveries of a run, over all lanes.
const DELIVERIES: usize = 50_000;

/// Lanes of the second row, each with its own host.
const LANES: u8 = 100;

/// Concurrent requests of the bare loop for each lane, the same as a lane has.
const IN_FLIGHT: usize = 16;

/// A delivery as the bare loop sends it: a body and headers of the usual size.
const BODY: &str = r#"{"id":"0197f2a0-0000-7000-8000-000000000000","type":"product_change","timestamp":"2026-01-01T00:00:00.000000Z","data":{"id":"0197f2a0-0000-7000-8000-000000000000","productSku":"MU-0000000","name":"Made up product","active":false}}"#;

/// What the floor is.
pub(super) const BARE_LOOP: &str = "a bare reqwest loop, 16 requests in flight a lane";

/// The target for CPU time per thousand deliveries, in milliseconds.
const CPU: Reach = Reach::AtMost(80.0);

/// The target for the resident memory of a worker, in MiB.
const MEMORY: Reach = Reach::AtMost(100.0);

/// A run that takes longer hangs.
pub(super) const HUNG: Duration = Duration::from_mins(10);

/// An e-shop whose products are all switched off and on again, so that its webhooks have deliveries.
pub(super) struct Shop {
    pub(super) site: Site,
    products: Vec<Uuid>,
    on: bool,
}

/// The result of a drain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drained {
    /// Deliveries per second.
    pub(super) rate: f64,
    pub(super) taken: Taken,
}

/// What its webhooks are, and what their destinations answer; without it, 204 at once.
#[derive(Debug, Clone, Default)]
pub(super) struct How {
    pub(super) fields: Value,
    pub(super) answer: Option<Answer>,
}

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let mut rows = lanes(stack, effort, 1).await?;
    rows.extend(lanes(stack, effort, LANES).await?);
    Ok(rows)
}

async fn lanes(stack: &Stack, effort: Effort, lanes: u8) -> anyhow::Result<Vec<Row>> {
    let products = effort.of(DELIVERIES) / usize::from(lanes);
    let deliveries = products * usize::from(lanes);
    let mut shop = Shop::open(stack, "drain", products).await?;
    let mut meter = Meter::of(stack).await?;

    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for run in runs(effort) {
        let floor = bare_loop(deliveries, lanes).await?;
        let drained = drain(&mut meter, &mut shop, 1, lanes, How::default()).await?;
        if run > 0 {
            floors.push(floor);
            ours.push(drained);
        }
    }
    let floor = Floor::median(floors, BARE_LOOP);
    let what = format!("webhook drain, {deliveries} due deliveries, lanes: {lanes}");
    let rate = median(ours.iter().map(|drained| drained.rate).collect());
    let mut rows = vec![Row::relative(what, rate, "1/s", floor, Reach::RatioAtLeast(0.6))];
    let taken: Vec<Taken> = ours.iter().map(|drained| drained.taken).collect();
    let what = format!("{deliveries} due, lanes: {lanes}");
    rows.extend(meter::rows(&what, &taken, CPU, MEMORY));
    Ok(rows)
}

/// The rows of several drains without a floor.
pub(super) fn rows_of(what: &str, runs: &[Drained]) -> Vec<Row> {
    let rate = median(runs.iter().map(|drained| drained.rate).collect());
    let mut rows = vec![Row::absolute(format!("drain, {what}"), rate, "1/s", Reach::Anywhere)];
    let taken: Vec<Taken> = runs.iter().map(|drained| drained.taken).collect();
    rows.extend(meter::rows(what, &taken, Reach::Anywhere, Reach::Anywhere));
    rows
}

/// Drains the deliveries of several switches of all products, made while the webhooks were inactive.
pub(super) async fn drain(
    meter: &mut Meter,
    shop: &mut Shop,
    switches: usize,
    lanes: u8,
    how: How,
) -> anyhow::Result<Drained> {
    let receiver = Receiver::counting_for_many().await?;
    if let Some(answer) = how.answer {
        receiver.answer_all(answer);
    }
    let webhooks = try_join_all((0..lanes).map(|lane| shop.listen(&receiver, lane))).await?;
    let api = shop.site.api.clone();
    try_join_all(webhooks.iter().map(|webhook| api.set_webhook(webhook.id, &how.fields))).await?;
    let set_active = async |active: bool| {
        let active = json!({ "active": active });
        try_join_all(webhooks.iter().map(|webhook| api.set_webhook(webhook.id, &active))).await
    };
    set_active(false).await?;
    for _ in 0..switches {
        shop.switch().await?;
    }
    let deliveries = shop.products.len() * switches * webhooks.len();
    let calls = deliveries.div_ceil(how.fields["batch"]["maxEvents"].as_u64().unwrap_or(1).try_into()?);
    let drained = released(meter, shop, &receiver, (deliveries, calls), async || {
        let started = Instant::now();
        set_active(true).await?;
        Ok(started)
    });
    let drained = drained.await?;
    try_join_all(webhooks.iter().map(|webhook| api.delete_webhook(webhook.id))).await?;
    Ok(drained)
}

/// Releases deliveries, which come by so many calls, and waits until the last one is recorded. `release` returns the start of the measured
/// time.
pub(super) async fn released(
    meter: &mut Meter,
    shop: &Shop,
    receiver: &Receiver,
    (deliveries, calls): (usize, usize),
    release: impl AsyncFnOnce() -> anyhow::Result<Instant>,
) -> anyhow::Result<Drained> {
    let before = meter.start().await?;
    let started = release().await?;
    // one event has the same webhook id for all its webhooks, so requests are counted
    receiver.wait_for(calls as u64, HUNG).await?;
    let rate = rate(deliveries, started, receiver)?;
    Ok(Drained { rate, taken: meter.taken(before, shop.site.eshop, deliveries).await? })
}

impl Shop {
    /// Creates one with this many active products.
    pub(super) async fn open(stack: &Stack, name: &str, products: usize) -> anyhow::Result<Self> {
        let site = Site::on(stack, name).await?;
        let job = site.api.sync_products(Catalogue::made_up(products).body(site.eshop)).await?;
        site.api.job_ended(job.id, HUNG).await?;
        let products = site.api.products(site.organisation).await?;
        Ok(Self { site, products, on: true })
    }

    /// Creates a webhook for products, at one of the receiver's hosts.
    pub(super) async fn listen(&self, receiver: &Receiver, host: u8) -> anyhow::Result<Webhook> {
        let url = receiver.url_of_host(host + 1);
        self.site.api.create_webhook(self.site.eshop, "product_change", &url).await
    }

    /// Switches all products off, or on the next time.
    pub(super) async fn switch(&mut self) -> anyhow::Result<()> {
        self.on = !self.on;
        let job = self.site.api.switch_products(self.on, &self.products).await?;
        let job = self.site.api.job_ended(job.id, HUNG).await?;
        ensure!(job.progress.changed == self.products.len() as u64, "not all were switched: {job:?}");
        Ok(())
    }
}

/// The floor: POSTs per second of a loop that does nothing else.
pub(super) async fn bare_loop(requests: usize, lanes: u8) -> anyhow::Result<f64> {
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
