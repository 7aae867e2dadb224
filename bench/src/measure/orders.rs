//! Orders: placed one by one over HTTP, imported as NDJSON, handed over, and those that wait for goods.

mod depot;
mod handover;
mod import;
mod news;
pub(crate) mod page;
mod place;
mod receipt;
mod wait;

use longshore_testkit::stack::Stack;

use super::process::{forget_peak, peak};
use super::{Effort, Reach, Row};

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let worker = stack.worker_pid()?;
    forget_peak(worker)?;
    let mut rows = place::measure(stack, effort).await?;
    rows.extend(receipt::measure(stack, effort).await?);
    rows.extend(import::measure(stack, effort).await?);
    rows.push(handover::measure(stack, effort).await?);
    rows.extend(news::measure(stack, effort).await?);
    rows.extend(wait::measure(stack, effort).await?);
    rows.push(Row::absolute("memory of the worker in all of it", peak(worker)?, "MiB", Reach::AtMost(100.0)));
    rows.extend(page::measure(stack, effort).await?);
    Ok(rows)
}
