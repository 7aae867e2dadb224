//! The time from the POST of an order to the receipt of its webhook, at a steady rate, compared with a bare chain; and to its
//! answer, beside an import of the same stocks.

use std::time::{Duration, Instant};

use longshore_testkit::receiver::Receiver;
use longshore_testkit::stack::Stack;

use super::depot::{Depot, HUNG, items};
use crate::measure::latency::by_turns;
use crate::measure::load::milliseconds;
use crate::measure::{Effort, Reach, Row, percentile};

/// Orders of a run.
const ORDERS: usize = 1_000;

/// Orders of the import beside which others are placed.
const IMPORTED: usize = 20_000;

/// Different products.
const PRODUCTS: usize = 1_000;

/// More pieces than are ever wanted.
const PLENTY: i64 = 1_000_000;

/// The interval of orders beside an import.
const EVERY: Duration = Duration::from_millis(20);

pub(in crate::measure) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let depot = Depot::on(stack, "receipt", PRODUCTS, PLENTY).await?;
    let receiver = Receiver::start().await?;
    let api = &depot.site.api;
    let webhook =
        api.create_webhook(depot.site.eshop, "expedition_status_change", &receiver.url("/")).await?;
    let post = |n: usize, number: String| {
        let (api, body) = (api.clone(), depot.body(&number, &items(n, PRODUCTS)));
        async move { api.place_order(&body).await }
    };
    let taken = by_turns(stack, &receiver, effort.of(ORDERS), "orderNumber", post).await?;
    api.delete_webhook(webhook.id).await?;
    let mut rows: Vec<Row> = [(50, 2.2), (99, 2.0)]
        .map(|(percent, most)| {
            let what = format!("POST of an order to its webhook, 50 a second, p{percent}");
            let (ours, floor) = taken.percentile(percent);
            Row::relative(what, ours, "ms", floor, Reach::RatioAtMost(most))
        })
        .into();
    rows.push(beside_an_import(&depot, effort).await?);
    Ok(rows)
}

/// How long the answers take, while an import books the same stocks.
async fn beside_an_import(depot: &Depot, effort: Effort) -> anyhow::Result<Row> {
    let count = effort.of(IMPORTED);
    let body = depot.import((0..count).map(|n| depot.row(&format!("I-{n}"), &items(n, PRODUCTS))));
    let job = depot.site.api.import_orders(body).await?;
    let ended = depot.site.api.job_ended(job.id, HUNG);
    tokio::pin!(ended);
    let mut beat = tokio::time::interval(EVERY);
    let mut posts = tokio::task::JoinSet::new();
    for n in 0.. {
        tokio::select! {
            job = &mut ended => {
                job?;
                break;
            }
            _ = beat.tick() => {
                let (api, body) = (depot.site.api.clone(), depot.body(&format!("B-{n}"), &items(n, PRODUCTS)));
                posts.spawn(async move {
                    let started = Instant::now();
                    api.place_order(&body).await.map(|()| milliseconds(started))
                });
            }
        }
    }
    let mut took = posts.join_all().await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    took.sort_by(f64::total_cmp);
    let what = format!("POST of an order beside an import of {count}, to the answer, p99");
    Ok(Row::absolute(what, percentile(&took, 99), "ms", Reach::AtMost(500.0)))
}
