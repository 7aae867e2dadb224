//! Concurrent single updates over HTTP, each with a webhook.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use longshore_testkit::receiver::Receiver;
use longshore_testkit::stack::Stack;

use super::drain::{BARE_LOOP, bare_loop};
use super::load::{self, runs};
use super::meter::{self, Meter};
use super::{Effort, Floor, Reach, Row, median};
use crate::catalogue::Catalogue;
use crate::site::Site;

/// Updates of a run.
const UPDATES: usize = 20_000;

/// Connections that send the requests.
const CONNECTIONS: usize = 32;

/// A run that takes longer hangs.
const HUNG: Duration = Duration::from_mins(3);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(UPDATES);
    let site = Site::on(stack, "update").await?;
    let job = site.api.sync_products(Catalogue::made_up(count).body(site.eshop)).await?;
    site.api.job_ended(job.id, HUNG).await?;
    let products = site.api.products(site.organisation).await?;

    let mut meter = Meter::of(stack).await?;
    let (mut figures, mut floors, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for run in runs(effort) {
        let floor = bare_loop(count, 1).await?;
        let receiver = Receiver::counting().await?;
        let webhook = site.api.create_webhook(site.eshop, "product_change", &receiver.url("/")).await?;
        let name = format!("Renamed {run} times");
        let before = meter.start().await?;
        let started = Instant::now();
        load::rate(count, CONNECTIONS, |n| site.api.rename_product(products[n], &name)).await?;
        receiver.wait_for_ids(count, HUNG).await?;
        let took = receiver.latest().context("nothing came")?.duration_since(started);
        let spent = meter.taken(before, site.eshop, count).await?;
        if run > 0 {
            figures.push(f64::from(u32::try_from(count)?) / took.as_secs_f64());
            floors.push(floor);
            taken.push(spent);
        }
        site.api.delete_webhook(webhook.id).await?;
    }
    let what = format!("{count} single updates, {CONNECTIONS} connections, to the last webhook");
    let floor = Floor::median(floors, BARE_LOOP);
    let mut rows = vec![Row::relative(what, median(figures), "1/s", floor, Reach::RatioAtLeast(0.17))];
    rows.extend(meter::rows(&format!("{count} single updates"), &taken, Reach::Anywhere, Reach::Anywhere));
    Ok(rows)
}
