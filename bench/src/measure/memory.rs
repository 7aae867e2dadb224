//! The peak memory of api and worker while a million products are synced as NDJSON, and listed without a
//! limit.

use std::time::{Duration, Instant};

use anyhow::ensure;
use longshore_testkit::stack::Stack;
use serde_json::json;

use super::process::{forget_peak, peak};
use super::{Effort, Reach, Row};
use longshore_demo::catalogue::Catalogue;
use longshore_demo::site::Site;

/// Products.
const PRODUCTS: usize = 1_000_000;

/// A run that takes longer hangs.
const HUNG: Duration = Duration::from_mins(30);

/// The rows, and the site with its products.
pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<(Vec<Row>, Site)> {
    let count = effort.of(PRODUCTS);
    let site = Site::on(stack, "memory").await?;
    let (api, worker) = (stack.api_pid()?, stack.worker_pid()?);
    let mut rows = Vec::new();
    let mut look = |what: &str, started: Instant| {
        for (name, pid) in [("api", api), ("worker", worker)] {
            let what = format!("memory of the {name} while {count} products are {what}");
            rows.push(Row::absolute(what, peak(pid)?, "MiB", Reach::AtMost(100.0)));
            forget_peak(pid)?;
        }
        let what = format!("{count} products are {what}, in all");
        rows.push(Row::absolute(what, started.elapsed().as_secs_f64(), "s", Reach::Anywhere));
        anyhow::Ok(())
    };
    forget_peak(api)?;
    forget_peak(worker)?;

    let body = Catalogue::made_up(count).body(site.eshop);
    let started = Instant::now();
    let job = site.api.sync_products(body).await?;
    let job = site.api.job_ended(job.id, HUNG).await?;
    ensure!(job.progress.changed == count as u64, "not all products are in: {job:?}");
    look("synced", started)?;

    let started = Instant::now();
    let criteria = json!({ "organisation": { "eq": site.organisation } });
    let bytes = site.api.list_products(&json!({ "criteria": criteria })).await?;
    ensure!(bytes > 500 * count as u64, "the list is too short: {bytes} bytes");
    look("listed", started)?;
    ensure!(stack.worker_pid()? == worker, "the worker was started again meanwhile");
    Ok((rows, site))
}
