//! What batches save: events a second and CPU time of calls with a hundred events, beside calls with one, at a destination that
//! answers at once and at one that needs 50 ms for each call.

use std::time::Duration;

use longshore_testkit::receiver::Answer;
use longshore_testkit::stack::Stack;
use serde_json::{Value, json};

use super::drain::{Drained, How, Shop, drain};
use super::load::runs;
use super::meter::Meter;
use super::{Effort, Floor, Reach, Row, median};

/// Products that are switched.
const PRODUCTS: usize = 10_000;

/// Calls at once, as many as there may be with batches.
const IN_FLIGHT: usize = 4;

/// What the floor is.
const ALONE: &str = "a call for each event";

/// What a shop needs for a call.
const SLOW: Duration = Duration::from_millis(50);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let products = effort.of(PRODUCTS);
    let mut shop = Shop::open(stack, "batch", products).await?;
    let mut meter = Meter::of(stack).await?;
    let slow = || Some(Answer::After(SLOW, Box::new(Answer::Status(204))));
    let mut rows = Vec::new();
    for (what, answer, least) in [("at once", None, 1.4), ("after 50 ms", slow(), 60.0)] {
        let (mut singles, mut batches) = (Vec::new(), Vec::new());
        for run in runs(effort) {
            let mut of = async |fields: Value| {
                let how = How { fields, answer: answer.clone() };
                drain(&mut meter, &mut shop, 1, 1, how).await
            };
            // one that answers at once has as many calls as by default
            let alone = if answer.is_some() { json!({ "maxInFlight": IN_FLIGHT }) } else { json!({}) };
            let single = of(alone).await?;
            let batch = of(json!({ "batch": { "maxEvents": 100 } })).await?;
            if run > 0 {
                singles.push(single);
                batches.push(batch);
            }
        }
        let of = |runs: &[Drained], figure: fn(&Drained) -> f64| runs.iter().map(figure).collect::<Vec<_>>();
        let rate = |drained: &Drained| drained.rate;
        let floor = Floor::median(of(&singles, rate), ALONE);
        let row = format!("{products} changes in batches of 100, answered {what}");
        rows.push(Row::relative(row, median(of(&batches, rate)), "1/s", floor, Reach::RatioAtLeast(least)));
        if answer.is_none() {
            let cpu = |drained: &Drained| drained.taken.cpu();
            let floor = Floor::median(of(&singles, cpu), ALONE);
            let row = format!("CPU of 1,000 of {products} changes in batches of 100");
            rows.push(Row::relative(row, median(of(&batches, cpu)), "ms", floor, Reach::RatioAtMost(0.75)));
        }
    }
    Ok(rows)
}
