//! A partner's catalogue that the worker fetches from a feed on the loopback interface, compared with pushing
//! the same one.

use std::time::{Duration, Instant};

use anyhow::ensure;
use longshore_testkit::receiver::{Answer, Document, Receiver};
use longshore_testkit::stack::Stack;

use super::floor::Psql;
use super::load::{per_second, runs};
use super::process::{forget_peak, peak};
use super::{Effort, Floor, Reach, Row, median};
use longshore_demo::api::{Job, JobState};
use longshore_demo::catalogue::Catalogue;
use longshore_demo::site::Site;

/// Products of a run.
const PRODUCTS: usize = 100_000;

/// A run that takes longer hangs.
const HUNG: Duration = Duration::from_mins(5);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(PRODUCTS);
    let catalogue = Catalogue::made_up(count);
    let feed = Receiver::start().await?;
    let body = format!("{}\n", catalogue.lines.join("\n")).into();
    feed.answer_all(Answer::Document(Document { body, ..Document::default() }));
    let mut psql = Psql::connect(stack).await?;
    let worker = stack.worker_pid()?;
    let (mut fetched, mut pushed, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for run in runs(effort) {
        // both begin without any of the products
        let (pushes, fetches) = (Site::on(stack, "push").await?, Site::on(stack, "fetch").await?);
        psql.settle().await?;
        let body = catalogue.body(pushes.eshop);
        let started = Instant::now();
        let job = pushes.api.sync_products(body).await?;
        let job = pushes.api.job_ended(job.id, HUNG).await?;
        let push = rate(&job, count, started)?;
        fetches.api.store_feed(fetches.eshop, &feed.url("/feed")).await?;
        psql.settle().await?;
        forget_peak(worker)?;
        let started = Instant::now();
        let job = fetches.api.fetch_products(fetches.eshop, "main").await?;
        let job = fetches.api.job_ended(job.id, HUNG).await?;
        let fetch = rate(&job, count, started)?;
        if run > 0 {
            pushed.push(push);
            fetched.push(fetch);
            memory.push(peak(worker)?);
        }
    }
    ensure!(stack.worker_pid()? == worker, "the worker was started again meanwhile");
    let floor = Floor::median(pushed, "the same products in the push form, from the request to the end");
    let what = format!("{count} products fetched from a feed");
    let least = Reach::RatioAtLeast(0.5);
    Ok(vec![
        Row::relative(what.clone(), median(fetched), "1/s", floor, least),
        Row::absolute(format!("memory of the worker, {what}"), median(memory), "MiB", Reach::AtMost(100.0)),
    ])
}

/// Products per second, from the request to the end of the job.
fn rate(job: &Job, count: usize, started: Instant) -> anyhow::Result<f64> {
    let rate = per_second(count, started)?;
    let complete = job.state == JobState::Succeeded && job.progress.changed == count as u64;
    ensure!(complete, "the sync is not what it was to be: {job:?}");
    Ok(rate)
}
