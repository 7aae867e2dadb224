//! Dry runs and guarded syncs, compared with the syncs that they are: of products that differ, and of equal ones.

use std::fmt::Write as _;
use std::time::Instant;

use longshore_demo::site::Site;
use longshore_testkit::stack::Stack;
use serde_json::{Value, json};

use super::floor::Psql;
use super::load::{per_second, runs};
use super::sync::ended;
use super::{Effort, Floor, Reach, Row, median};

/// Products of a run.
const PRODUCTS: usize = 100_000;

/// A catalogue in an edition, as NDJSON.
fn body(count: usize, edition: usize, header: &Value) -> Result<String, std::fmt::Error> {
    let mut body = format!("{header}\n");
    for n in 0..count {
        let name = format!("Made up product {n}, edition {edition}");
        writeln!(body, r#"{{"productSku":"PV-{n:07}","active":true,"name":"{name}"}}"#)?;
    }
    Ok(body)
}

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(PRODUCTS);
    let site = Site::on(stack, "preview").await?;
    let mut psql = Psql::connect(stack).await?;
    // all of them are there
    let plain = json!({ "eshop": site.eshop });
    let (mut tried, mut guarded) = (plain.clone(), plain.clone());
    tried["dryRun"] = json!(true);
    guarded["guard"] = json!({ "maxDeactivated": "20%" });
    let stored = site.api.sync_products(body(count, 0, &plain)?).await?;
    ended(&site, stored, |changed| changed == count as u64).await?;
    let (mut differing, mut differing_floors) = (Vec::new(), Vec::new());
    let (mut equal, mut equal_floors) = (Vec::new(), Vec::new());
    let mut with_guard = Vec::new();
    for (run, edition) in runs(effort).zip((1..).step_by(2)) {
        let mut rates = Vec::new();
        // what differs, after its sync the same once more, and what differs again
        let turns = [
            (edition, &tried, count),
            (edition, &plain, count),
            (edition, &tried, 0),
            (edition, &plain, 0),
            (edition + 1, &guarded, count),
        ];
        for (edition, header, changes) in turns {
            psql.settle().await?;
            let body = body(count, edition, header)?;
            let started = Instant::now();
            let job = site.api.sync_products(body).await?;
            ended(&site, job, |changed| changed == changes as u64).await?;
            rates.push(per_second(count, started)?);
        }
        if let ([tried, done, same_tried, same_done, guarded], true) = (rates.as_slice(), run > 0) {
            differing.push(*tried);
            differing_floors.push(*done);
            equal.push(*same_tried);
            equal_floors.push(*same_done);
            with_guard.push(*guarded);
        }
    }
    Ok(vec![
        Row::relative(
            format!("dry run of {count} products that differ"),
            median(differing),
            "1/s",
            Floor::median(differing_floors.clone(), "their sync"),
            Reach::RatioAtLeast(1.0),
        ),
        Row::relative(
            format!("guarded sync of {count} products that differ"),
            median(with_guard),
            "1/s",
            Floor::median(differing_floors, "without a guard"),
            // 1.1 times as long
            Reach::RatioAtLeast(0.91),
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
