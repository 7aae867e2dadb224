//! Dry runs, compared with the syncs that they try: of products that differ, and of equal ones.

use std::fmt::Write as _;
use std::time::Instant;

use longshore_demo::site::Site;
use longshore_testkit::stack::Stack;
use serde_json::json;
use uuid::Uuid;

use super::floor::Psql;
use super::load::{per_second, runs};
use super::sync::ended;
use super::{Effort, Floor, Reach, Row, median};

/// Products of a run.
const PRODUCTS: usize = 100_000;

/// A catalogue in an edition, as NDJSON.
fn body(eshop: Uuid, count: usize, edition: usize, is_dry_run: bool) -> Result<String, std::fmt::Error> {
    let mut body = format!("{}\n", json!({ "eshop": eshop, "dryRun": is_dry_run }));
    for n in 0..count {
        writeln!(body, r#"{{"productSku":"PV-{n:07}","name":"Made up product {n}, edition {edition}"}}"#)?;
    }
    Ok(body)
}

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(PRODUCTS);
    let site = Site::on(stack, "preview").await?;
    let mut psql = Psql::connect(stack).await?;
    // all of them are there
    let stored = site.api.sync_products(body(site.eshop, count, 0, false)?).await?;
    ended(&site, stored, |changed| changed == count as u64).await?;
    let (mut differing, mut differing_floors) = (Vec::new(), Vec::new());
    let (mut equal, mut equal_floors) = (Vec::new(), Vec::new());
    for (run, edition) in runs(effort).zip(1..) {
        let mut rates = Vec::new();
        // what differs, and after its sync the same once more
        for changes in [count, 0] {
            for is_dry_run in [true, false] {
                psql.settle().await?;
                let body = body(site.eshop, count, edition, is_dry_run)?;
                let started = Instant::now();
                let job = site.api.sync_products(body).await?;
                ended(&site, job, |changed| changed == changes as u64).await?;
                rates.push(per_second(count, started)?);
            }
        }
        if let ([tried, done, same_tried, same_done], true) = (rates.as_slice(), run > 0) {
            differing.push(*tried);
            differing_floors.push(*done);
            equal.push(*same_tried);
            equal_floors.push(*same_done);
        }
    }
    Ok(vec![
        Row::relative(
            format!("dry run of {count} products that differ"),
            median(differing),
            "1/s",
            Floor::median(differing_floors, "their sync"),
            Reach::RatioAtLeast(1.0),
        ),
        Row::relative(
            format!("dry run of {count} equal products"),
            median(equal),
            "1/s",
            Floor::median(equal_floors, "their sync"),
            // 1.3 times as long
            Reach::RatioAtLeast(0.77),
        ),
    ])
}
