//! CSV in and out, compared with JSON: a catalogue that is pushed, a list, and the refused rows of a push.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::ensure;
use longshore_testkit::stack::Stack;
use serde_json::json;

use super::floor::Psql;
use super::load::{milliseconds, per_second, runs};
use super::sync::ended;
use super::{Effort, Floor, Reach, Row, median};
use longshore_demo::catalogue::Catalogue;
use longshore_demo::site::Site;

/// Products of a run.
const PRODUCTS: usize = 100_000;

/// Rows that are refused: as many as are kept.
const REFUSED: usize = 10_000;

/// A run that takes longer hangs.
const HUNG: Duration = Duration::from_mins(5);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let (count, refused) = (effort.of(PRODUCTS), effort.of(REFUSED));
    let (catalogue, mut file) = (Catalogue::made_up(count), "productSku;name\r\n".to_owned());
    for n in 0..count {
        write!(file, "MU-{n:07};Made up product {n}\r\n")?;
    }
    let wrong = "productSku;name;weight\r\n".to_owned() + &"MU-1;Made up product;heavy\r\n".repeat(refused);
    let site = Site::on(stack, "csv").await?;
    let mut psql = Psql::connect(stack).await?;
    // all rows are there, and the same, in what is compared
    ended(&site, site.api.sync_products(catalogue.body(site.eshop)).await?, |changed| {
        changed == count as u64
    })
    .await?;
    let records = json!({"select": ["id", "productSku", "name", "active", "changedAt"], "count": "none"});
    let (mut pushed, mut pushed_floors) = (Vec::new(), Vec::new());
    let (mut listed, mut listed_floors, mut given_back) = (Vec::new(), Vec::new(), Vec::new());
    for run in runs(effort) {
        psql.settle().await?;
        let (body, sheet) = (catalogue.body(site.eshop), file.clone());
        let started = Instant::now();
        ended(&site, site.api.sync_products(body).await?, |changed| changed == 0).await?;
        let lines = per_second(count, started)?;
        let started = Instant::now();
        ended(&site, site.api.sync_products_of_csv(site.eshop, sheet).await?, |changed| changed == 0).await?;
        let cells = per_second(count, started)?;
        let started = Instant::now();
        site.api.list_products(&records).await?;
        let as_json = per_second(count, started)?;
        let started = Instant::now();
        site.api.list_products_as_csv(&records).await?;
        let as_csv = per_second(count, started)?;
        let job = site.api.sync_products_of_csv(site.eshop, wrong.clone()).await?;
        let job = site.api.job_ended(job.id, HUNG).await?;
        ensure!(job.progress.failed == refused as u64, "not all are refused: {job:?}");
        let started = Instant::now();
        ensure!(site.api.refused_rows(job.id).await? > wrong.len() as u64, "rows are missing");
        let back = milliseconds(started);
        if run > 0 {
            pushed_floors.push(lines);
            pushed.push(cells);
            listed_floors.push(as_json);
            listed.push(as_csv);
            given_back.push(back);
        }
    }
    let reach = Reach::RatioAtLeast(0.8);
    Ok(vec![
        Row::relative(
            format!("push of {count} products as CSV"),
            median(pushed),
            "1/s",
            Floor::median(pushed_floors, "the same as NDJSON"),
            reach,
        ),
        Row::relative(
            format!("list of {count} products as CSV"),
            median(listed),
            "1/s",
            Floor::median(listed_floors, "the same as JSON"),
            reach,
        ),
        Row::absolute(
            format!("{refused} refused rows, given back"),
            median(given_back),
            "ms",
            Reach::AtMost(1_000.0),
        ),
    ])
}
