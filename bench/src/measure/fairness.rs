//! What one organisation feels of another that floods, hangs, or asks for the costliest: each figure beside that of a quiet service.
//!
//! One file a subject; a subject more is a line in [`measure`].

mod feeds;
mod jobs;
mod lanes;
mod lists;

use super::{Effort, Row};
use crate::stack::Stack;

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    rows.extend(jobs::measure(stack, effort).await?);
    rows.extend(feeds::measure(stack, effort).await?);
    rows.extend(lists::measure(stack, effort).await?);
    rows.extend(lanes::measure(stack, effort).await?);
    Ok(rows)
}
