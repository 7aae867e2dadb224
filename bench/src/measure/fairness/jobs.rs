//! Beside the jobs of one organisation: a sync of one row and reads of another organisation.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use longshore_testkit::stack::Stack;
use uuid::Uuid;

use crate::measure::load::milliseconds;
use crate::measure::{Effort, Floor, Reach, Row, median, percentile};
use longshore_demo::catalogue::Catalogue;
use longshore_demo::site::Site;

/// Waiting bulk jobs …
const JOBS: usize = 150;
/// … and the products of each.
const PRODUCTS_OF_A_JOB: usize = 3_000;
/// Products of the bulk job with concurrent writers, …
const PRODUCTS: usize = 50_000;
/// … and the number of these writers.
const WRITERS: usize = 64;
/// Syncs of one row, one after another.
pub(super) const SYNCS: usize = 5;
/// Reads on a quiet service.
const READS: usize = 500;
/// A job that takes longer hangs.
pub(super) const HUNG: Duration = Duration::from_mins(10);

const QUIET: &str = "the same while nothing else is done";

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let (flood, other) = (Site::on(stack, "flood").await?, Site::on(stack, "other").await?);
    let job = flood.api.sync_products(Catalogue::made_up(effort.of(PRODUCTS)).body(flood.eshop)).await?;
    flood.api.job_ended(job.id, HUNG).await?;
    let products = flood.api.products(flood.organisation).await?;
    Ok(vec![
        behind_a_backlog(&flood, &other, &products, effort).await?,
        beside_a_bulk(&flood, &other, &products).await?,
    ])
}

/// How long each of several syncs of one row takes, in milliseconds.
pub(super) async fn syncs(site: &Site) -> anyhow::Result<Vec<f64>> {
    let mut took = Vec::new();
    for _ in 0..SYNCS {
        let started = Instant::now();
        let job = site.api.sync_products(Catalogue::made_up(1).body(site.eshop)).await?;
        site.api.job_ended(job.id, HUNG).await?;
        took.push(milliseconds(started));
    }
    Ok(took)
}

async fn behind_a_backlog(
    flood: &Site,
    other: &Site,
    products: &[Uuid],
    effort: Effort,
) -> anyhow::Result<Row> {
    let quiet = median(syncs(other).await?);
    let jobs = effort.of(JOBS);
    let some = products.get(..PRODUCTS_OF_A_JOB.min(products.len())).unwrap_or(products);
    let mut last = None;
    for n in 0..jobs {
        last = Some(flood.api.switch_products(n % 2 == 1, some).await?);
    }
    let last = last.context("no job was asked for")?;
    let slowest = syncs(other).await?.into_iter().fold(0.0, f64::max);
    flood.api.job_ended(last.id, HUNG).await?;
    let what =
        format!("sync of one row beside {jobs} bulk jobs of {} by another, slowest of {SYNCS}", some.len());
    Ok(Row::new(what, slowest, "ms", Some(Floor::of(quiet, QUIET)), Reach::AtMost(2_000.0)))
}

async fn beside_a_bulk(flood: &Site, other: &Site, products: &[Uuid]) -> anyhow::Result<Row> {
    let read = other.api.products(other.organisation).await?;
    let read = *read.first().context("the other organisation has no product")?;
    let mut quiet = Vec::new();
    for _ in 0..READS {
        quiet.push(get(other, read).await?);
    }
    quiet.sort_by(f64::total_cmp);
    let done = AtomicBool::new(false);
    let done = &done;
    let bulk = async {
        let job = flood.api.switch_products(false, products).await?;
        let ended = flood.api.job_ended(job.id, HUNG).await;
        done.store(true, Relaxed);
        ended.map(drop)
    };
    let write = async |writer: usize| {
        for n in (writer..).step_by(WRITERS) {
            if done.load(Relaxed) {
                break;
            }
            if let Some(product) = products.get(n % products.len().max(1)) {
                // writers to rows of the bulk job may get 429: this measures the readers
                let _ = flood.api.rename_product(*product, &format!("Renamed {n}")).await;
            }
        }
        anyhow::Ok(())
    };
    let reads = async {
        let mut took = Vec::new();
        while !done.load(Relaxed) {
            took.push(get(other, read).await?);
        }
        anyhow::Ok(took)
    };
    let writing = futures::future::try_join_all((0..WRITERS).map(write));
    let ((), _, mut took) = tokio::try_join!(bulk, writing, reads)?;
    ensure!(!took.is_empty(), "nothing was read while the bulk ran");
    took.sort_by(f64::total_cmp);
    let what = format!(
        "GET beside a bulk of {} and {WRITERS} writers of its products by another, p99",
        products.len()
    );
    let floor = Floor::of(percentile(&quiet, 99), QUIET);
    Ok(Row::new(what, percentile(&took, 99), "ms", Some(floor), Reach::AtMost(50.0)))
}

async fn get(site: &Site, product: Uuid) -> anyhow::Result<f64> {
    let started = Instant::now();
    site.api.get_product(product).await?;
    Ok(milliseconds(started))
}
