//! What more workers bring: the drain of a hundred lanes by one, two and four of them.
//!
//! Taken twice. Where destinations answer at once, CPU and Postgres are the bound, and workers on one machine share
//! both. Where they are slow and each worker runs few lanes at once, places are the bound, and every worker brings its
//! own.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection};

use super::drain::{HUNG, drain};
use super::load::runs;
use super::{Effort, Reach, Row, median};
use crate::catalogue::Catalogue;
use crate::receiver::Answer;
use crate::stack::Stack;

/// How many workers there are; each more than before.
const WORKERS: [usize; 3] = [1, 2, 4];

/// Deliveries of a run, over all lanes.
const DELIVERIES: usize = 20_000;

/// Lanes, each to a host of its own.
const LANES: u8 = 100;

/// How long a slow destination takes.
const SLOW: Duration = Duration::from_millis(100);

/// Lanes that a worker runs at once while destinations are slow: fewer than there are, whatever the number of workers.
const PLACES: i32 = 8;

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let products = effort.of(DELIVERIES) / usize::from(LANES);
    let deliveries = products * usize::from(LANES);
    let site = stack.site("workers").await?;
    let job = site.api.sync_products(Catalogue::made_up(products).body(site.eshop)).await?;
    site.api.job_ended(job.id, HUNG).await?;
    let products = site.api.products(site.organisation).await?;

    let slow = Answer::After(SLOW, Box::new(Answer::Status(204)));
    let (mut added, mut rows) = (Vec::new(), Vec::new());
    for workers in WORKERS {
        while added.len() + 1 < workers {
            added.push(stack.another_worker().await?);
        }
        for (what, places, answer) in
            [("at once", None, None), ("in 100 ms, 8 lanes a worker", Some(PLACES), Some(&slow))]
        {
            run_at_once(stack, places).await?;
            let mut figures = Vec::new();
            for run in runs(effort) {
                // the run that warms up is also the time that workers take to obey
                let figure = drain(&site, &products, LANES, run % 2 == 1, answer.cloned()).await?;
                if run > 0 {
                    figures.push(figure);
                }
            }
            let what = format!("drain, {deliveries} due, answered {what}, workers: {workers}");
            rows.push(Row::absolute(what, median(figures), "1/s", Reach::Anywhere));
        }
    }
    run_at_once(stack, None).await?;
    Ok(rows)
}

/// Lanes that each worker runs at once from now on; none: what it was started with.
async fn run_at_once(stack: &Stack, lanes: Option<i32>) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(stack.database_url.as_str()).await?;
    sqlx::query("UPDATE queue SET concurrency = $1 WHERE name = 'lane'")
        .bind(lanes)
        .execute(&mut connection)
        .await?;
    Ok(connection.close().await?)
}
