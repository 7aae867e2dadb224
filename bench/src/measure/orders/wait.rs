//! Orders that wait for goods, and bookings that a count takes back.

use std::time::Instant;

use anyhow::ensure;
use longshore_testkit::stack::Stack;

use super::depot::{Depot, HUNG, Wanted};
use crate::measure::floor::Psql;
use crate::measure::load::milliseconds;
use crate::measure::{Effort, Floor, Reach, Row, median};
use longshore_demo::api::JobState;

/// Orders that wait for goods that come, and that a count takes from.
const WAITING: usize = 10_000;

/// Orders that wait for another product.
const CROWD: usize = 100_000;

/// Orders of a small crowd.
const FEW: usize = 100;

pub(in crate::measure) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let mut rows = goods_come_and_go(stack, effort).await?;
    rows.push(goods_for_nobody(stack, effort).await?);
    Ok(rows)
}

/// Goods for all who wait, and then a count that finds nothing.
async fn goods_come_and_go(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(WAITING);
    let pieces = i64::try_from(count)?;
    let depot = Depot::on(stack, "goods", 2, 0).await?;
    let mut psql = Psql::connect(stack).await?;
    let (mut served, mut taken_back, mut zeros, mut floors) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in 0..effort.runs {
        depot.empty(&mut psql, 0).await?;
        let rows = (0..count).map(|n| depot.row(&format!("W{run}-{n}"), &[(0, 1)]));
        depot.imported(depot.import(rows), count).await?;
        ensure!(depot.count_of(&mut psql, "waiting_for_goods").await? == pieces, "not all wait");
        psql.settle().await?;
        let started = Instant::now();
        depot.begin_count(std::iter::once(0), pieces).await?;
        depot.until(&mut psql, "awaiting_processing", count).await?;
        served.push(milliseconds(started));
        psql.settle().await?;
        floors.push(counted(&depot, 1, 5 + i64::try_from(run)?).await?);
        let started = Instant::now();
        zeros.push(counted(&depot, 0, 0).await?);
        depot.until(&mut psql, "waiting_for_goods", count).await?;
        taken_back.push(milliseconds(started));
    }
    let floor = Floor::median(floors, "a count that takes nothing back");
    Ok(vec![
        Row::absolute(
            format!("goods come that {count} orders wait for, until all are booked"),
            median(served),
            "ms",
            Reach::AtMost(5_000.0),
        ),
        Row::relative(
            format!("a count of 0 of a stock that {count} orders hold, to the end of its job"),
            median(zeros),
            "ms",
            floor,
            Reach::RatioAtMost(1.2),
        ),
        Row::absolute("the same, until all is taken back", median(taken_back), "ms", Reach::AtMost(10_000.0)),
    ])
}

/// The time until a count is taken, in milliseconds.
async fn counted(depot: &Depot, product: usize, pieces: i64) -> anyhow::Result<f64> {
    let started = Instant::now();
    let job = depot.begin_count(std::iter::once(product), pieces).await?;
    let job = depot.site.api.job_ended(job.id, HUNG).await?;
    ensure!(job.state == JobState::Succeeded, "the count is not taken: {job:?}");
    Ok(milliseconds(started))
}

/// A piece of what all orders want, which all lack something else: until no order is left to look at.
async fn goods_for_nobody(stack: &Stack, effort: Effort) -> anyhow::Result<Row> {
    let count = effort.of(CROWD);
    let mut psql = Psql::connect(stack).await?;
    let mut depots = Vec::new();
    for (name, waiting) in [("few", FEW), ("many", count)] {
        let depot = Depot::on(stack, name, 2, 0).await?;
        let wanted: [Wanted; 2] = [(0, 1), (1, 2)];
        let rows = (0..waiting).map(|n| depot.row(&format!("N-{n}"), &wanted));
        depot.imported(depot.import(rows), waiting).await?;
        depots.push(depot);
    }
    psql.settle().await?;
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for run in 0..2 * effort.runs {
        for (depot, figures) in depots.iter().zip([&mut few, &mut many]) {
            let started = Instant::now();
            depot.begin_count(std::iter::once(0), 1 + i64::try_from(run)?).await?;
            let has_come = format!(
                "SELECT EXISTS (SELECT FROM product_stock WHERE product_id = '{}' AND quantity = {})",
                depot.products[0],
                1 + run
            );
            while !psql.ask::<bool>(&has_come).await? {}
            depot.until_unmarked(&mut psql).await?;
            figures.push(milliseconds(started));
        }
    }
    let floor = Floor::median(few, "the same with 100 that wait");
    let what = format!("a piece comes that {count} want who all lack something else");
    Ok(Row::relative(what, median(many), "ms", floor, Reach::RatioAtMost(2.0)))
}
