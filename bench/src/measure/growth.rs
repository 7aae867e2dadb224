//! Whether a delivery costs the same as the work grows: with a hundred, ten thousand and a million due to one webhook, and
//! with as many due to one, a thousand and a hundred thousand webhooks. By how many workers they are sent is told by
//! `workers`.

use std::time::Instant;

use super::drain::{Drained, HUNG, Shop, drain, released, told};
use super::floor::Psql;
use super::load::{self, runs};
use super::meter::Meter;
use super::{Effort, Row};
use crate::receiver::Receiver;
use crate::stack::Stack;

/// Deliveries that are due to one webhook.
const BACKLOGS: [usize; 3] = [100, 10_000, 1_000_000];

/// Products that are switched at once; as many as a bulk call takes.
const PRODUCTS: usize = 100_000;

/// Webhooks that deliveries are due to.
const WEBHOOKS: [usize; 3] = [1, 1_000, 100_000];

/// Deliveries that are due to all of them together.
const DELIVERIES: usize = 100_000;

/// Deliveries that are due to one webhook while the others have nothing to do.
const ALONE: usize = 10_000;

/// Hosts that share the webhooks, so that what grows is lanes and not connections.
const HOSTS: usize = 100;

/// Connections over which webhooks are created.
const CREATORS: usize = 32;

/// A figure of more deliveries than this is that of one run, which takes long enough to count alone.
const FEW: usize = 10_000;

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let mut meter = Meter::of(stack).await?;
    let mut rows = Vec::new();
    for due in BACKLOGS.map(|due| effort.of(due)) {
        let drains = to_one(stack, &mut meter, effort, due).await?;
        rows.extend(told(&format!("{due} due to one webhook"), &drains));
    }
    let deliveries = effort.of(DELIVERIES);
    let webhooks = WEBHOOKS.map(|webhooks| effort.of(webhooks).max(1));
    for webhooks in webhooks {
        let drained = to_many(stack, &mut meter, deliveries, webhooks).await?;
        rows.extend(told(&format!("{deliveries} due, webhooks: {webhooks}"), &[drained]));
    }
    let (due, idle) = (effort.of(ALONE), webhooks.iter().sum::<usize>());
    let drains = to_one(stack, &mut meter, effort, due).await?;
    rows.extend(told(&format!("{due} due to one webhook, {idle} idle"), &drains));
    Ok(rows)
}

/// Drains what is due to one webhook.
async fn to_one(
    stack: &Stack,
    meter: &mut Meter,
    effort: Effort,
    due: usize,
) -> anyhow::Result<Vec<Drained>> {
    let products = due.min(PRODUCTS);
    let mut shop = Shop::open(stack, "backlog", products).await?;
    let mut drains = Vec::new();
    for run in runs(effort) {
        let drained = drain(meter, &mut shop, due / products, 1, None).await?;
        if run > 0 {
            drains.push(drained);
        } else if due > FEW {
            return Ok(vec![drained]);
        }
    }
    Ok(drains)
}

/// Drains what is due to many webhooks, the same to each. The dispatcher finds their lanes, so the rate counts from the first
/// receipt.
async fn to_many(
    stack: &Stack,
    meter: &mut Meter,
    deliveries: usize,
    webhooks: usize,
) -> anyhow::Result<Drained> {
    let mut shop = Shop::open(stack, "webhooks", deliveries / webhooks).await?;
    let receiver = Receiver::counting_for_many().await?;
    let listen = async |n: usize| shop.listen(&receiver, u8::try_from(n % HOSTS)?).await.map(drop);
    load::rate(webhooks, CREATORS, listen).await?;
    let mut psql = Psql::connect(stack).await?;
    // a hundred thousand requests to let them go would be what is measured
    let eshop = shop.site.eshop;
    let set_active =
        |active: bool| format!("UPDATE webhook SET active = {active} WHERE eshop_id = '{eshop}'");
    psql.run(&set_active(false)).await?;
    shop.switch().await?;
    let release = async || {
        psql.run(&set_active(true)).await?;
        receiver.wait_for(1, HUNG).await?;
        Ok(Instant::now())
    };
    released(meter, &shop, &receiver, deliveries, release).await
}
