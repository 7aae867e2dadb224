//! The effect of an organisation that floods, hangs, or makes the most expensive requests on another one:
//! each figure is compared with that of a quiet service.
//!
//! One file per subject; a new one is a line in [`measure`].

mod bodies;
mod feeds;
mod jobs;
mod lanes;
mod lists;

use longshore_testkit::stack::Stack;

use super::{Effort, Row};

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    rows.extend(jobs::measure(stack, effort).await?);
    rows.extend(feeds::measure(stack, effort).await?);
    rows.extend(lists::measure(stack, effort).await?);
    rows.extend(bodies::measure(stack, effort).await?);
    rows.extend(lanes::measure(stack, effort).await?);
    Ok(rows)
}
