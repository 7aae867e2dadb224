//! From the POST of a product to the receipt of its webhook, one at a time.

use std::time::{Duration, Instant};

use super::{Effort, Reach, Row, percentile};
use crate::receiver::Receiver;
use crate::stack::Stack;

/// Products of a run.
const PRODUCTS: usize = 400;

/// Products before it, for what is prepared, cached and connected first.
const WARM_UP: usize = 40;

/// A webhook that takes longer is not late but lost.
const LOST: Duration = Duration::from_secs(30);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let site = stack.site("latency").await?;
    let receiver = Receiver::counting().await?;
    let webhook = site.api.create_webhook(site.eshop, "product_change", &receiver.url("/")).await?;
    let mut milliseconds = Vec::new();
    for n in 0..WARM_UP + PRODUCTS / effort.divisor {
        let started = Instant::now();
        site.api.create_product(site.organisation, site.eshop, &format!("L-{n}")).await?;
        receiver.wait_for_ids(n + 1, LOST).await?;
        // The arrival itself, not when we learned of it.
        let arrived = receiver.latest().map_or_else(|| started.elapsed(), |at| at.duration_since(started));
        if n >= WARM_UP {
            milliseconds.push(1_000.0 * arrived.as_secs_f64());
        }
    }
    site.api.delete_webhook(webhook.id).await?;
    milliseconds.sort_by(f64::total_cmp);
    Ok([(50, Reach::AtMost(5.0)), (99, Reach::Anywhere)]
        .map(|(percent, reach)| {
            let what = format!("POST of a product to its webhook, p{percent}");
            Row::absolute(what, percentile(&milliseconds, percent), "ms", reach)
        })
        .into())
}
