//! The effect of more workers: a hundred lanes drained by one, two and four of them.
//!
//! It is measured twice. With destinations that answer at once, CPU and Postgres are the limit, and all
//! workers share one machine. With slow destinations and few concurrent lanes per worker, places are the
//! limit, and every worker adds some.

use std::time::Duration;

use longshore_testkit::receiver::Answer;
use longshore_testkit::stack::Stack;
use sqlx::{Connection as _, PgConnection};

use super::drain::{How, Shop, drain, rows_of};
use super::load::runs;
use super::meter::Meter;
use super::{Effort, Row};

/// Numbers of workers, in increasing order.
const WORKERS: [usize; 3] = [1, 2, 4];

/// Deliveries of a run, over all lanes.
const DELIVERIES: usize = 20_000;

/// Lanes, each with its own host.
const LANES: u8 = 100;

/// How long a slow destination takes to answer.
const SLOW: Duration = Duration::from_millis(100);

/// Concurrent lanes per worker with slow destinations: fewer than there are lanes, for any number of workers.
const PLACES: i32 = 8;

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let products = effort.of(DELIVERIES) / usize::from(LANES);
    let deliveries = products * usize::from(LANES);
    let mut shop = Shop::open(stack, "workers", products).await?;
    let mut meter = Meter::of(stack).await?;

    let slow = Answer::After(SLOW, Box::new(Answer::Status(204)));
    let (mut added, mut rows) = (Vec::new(), Vec::new());
    for workers in WORKERS {
        while added.len() + 1 < workers {
            let worker = stack.another_worker().await?;
            meter.with(&worker)?;
            added.push(worker);
        }
        for (what, places, answer) in
            [("at once", None, None), ("in 100 ms, 8 lanes a worker", Some(PLACES), Some(&slow))]
        {
            run_at_once(stack, places).await?;
            let mut drains = Vec::new();
            for run in runs(effort) {
                // the warm-up run also gives the workers time to apply the new limit
                let drained =
                    drain(&mut meter, &mut shop, 1, LANES, How { answer: answer.cloned(), ..How::default() })
                        .await?;
                if run > 0 {
                    drains.push(drained);
                }
            }
            let what = format!("{deliveries} due, answered {what}, workers: {workers}");
            rows.extend(rows_of(&what, &drains));
        }
    }
    run_at_once(stack, None).await?;
    Ok(rows)
}

/// Sets the concurrent lanes per worker; `None` restores the initial value.
async fn run_at_once(stack: &Stack, lanes: Option<i32>) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(stack.database_url.as_str()).await?;
    sqlx::query("UPDATE queue SET concurrency = $1 WHERE name = 'lane'")
        .bind(lanes)
        .execute(&mut connection)
        .await?;
    Ok(connection.close().await?)
}
