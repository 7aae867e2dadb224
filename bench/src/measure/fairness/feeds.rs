//! Beside slow feeds of one organisation: its own pushes for another e-shop, and the feed of another
//! organisation.

use std::time::{Duration, Instant};

use anyhow::ensure;
use longshore_testkit::receiver::{Answer, Document, Receiver};
use longshore_testkit::stack::Stack;

use super::jobs::{HUNG, SYNCS, syncs};
use crate::measure::load::milliseconds;
use crate::measure::{Effort, Floor, Reach, Row, median};
use longshore_demo::api::JobState;
use longshore_demo::catalogue::Catalogue;
use longshore_demo::site::Site;

/// Slow feeds: more than the places of a worker.
const DRIPPING: usize = 64;

/// The time limit for all fetches to reach their feeds.
const REACHED: Duration = Duration::from_mins(1);

const QUIET: &str = "the same without a fetch";

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let (one, other) = (Site::on(stack, "that drips").await?, Site::on(stack, "that is fetched").await?);
    let feed = Receiver::start().await?;
    let body = format!("{}\n", Catalogue::made_up(1).lines.join("\n")).into();
    feed.answer_all(Answer::Document(Document { body, ..Document::default() }));
    other.api.store_feed(other.eshop, &feed.url("/feed")).await?;
    let (quiet_push, quiet_fetch) = (median(syncs(&one).await?), median(fetches(&other).await?));

    let drip = Receiver::start().await?;
    drip.answer_all(Answer::Drip);
    for n in 0..effort.of(DRIPPING) {
        let eshop = one.another_eshop(stack, &format!("shop {n}")).await?;
        one.api.store_feed(eshop, &drip.url(&format!("/{n}"))).await?;
        one.api.fetch_products(eshop, "main").await?;
    }
    drip.wait_for(1, REACHED).await?;
    let slowest = |took: Vec<f64>| took.into_iter().fold(0.0, f64::max);
    let (push, fetch) = (slowest(syncs(&one).await?), slowest(fetches(&other).await?));
    let dripping = effort.of(DRIPPING);
    let row = |what: &str, figure, quiet| {
        let what = format!("{what} beside {dripping} feeds that drip, slowest of {SYNCS}");
        Row::new(what, figure, "ms", Some(Floor::of(quiet, QUIET)), Reach::AtMost(2_000.0))
    };
    Ok(vec![
        row("sync of one row of the same organisation", push, quiet_push),
        row("feed of one row of another", fetch, quiet_fetch),
    ])
}

/// How long several fetches of the feed take.
async fn fetches(site: &Site) -> anyhow::Result<Vec<f64>> {
    let mut took = Vec::new();
    for _ in 0..SYNCS {
        let started = Instant::now();
        let job = site.api.fetch_products(site.eshop, "main").await?;
        let job = site.api.job_ended(job.id, HUNG).await?;
        ensure!(job.state == JobState::Succeeded, "the feed was not fetched: {job:?}");
        took.push(milliseconds(started));
    }
    Ok(took)
}
