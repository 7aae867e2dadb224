//! Whether the cost of a delivery grows with the amount of work: with a hundred, ten thousand and a million
//! deliveries of one webhook, and with the same number for one, a thousand and ten thousand webhooks: as many as an
//! e-shop may have. `workers` measures the number of workers.

use std::time::Instant;

use longshore_testkit::receiver::Receiver;
use longshore_testkit::stack::Stack;

use super::drain::{Drained, HUNG, How, Shop, drain, released, rows_of};
use super::floor::Psql;
use super::load::{self, runs};
use super::meter::Meter;
use super::{Effort, Row};

/// Due deliveries of one webhook.
const BACKLOGS: [usize; 3] = [100, 10_000, 1_000_000];

/// Products switched at once: the maximum of a bulk call.
const PRODUCTS: usize = 100_000;

/// Numbers of webhooks with due deliveries.
const WEBHOOKS: [usize; 3] = [1, 1_000, 10_000];

/// Due deliveries of all of them together.
const DELIVERIES: usize = 100_000;

/// Due deliveries of one webhook while the others are idle.
const ALONE: usize = 10_000;

/// Hosts that share the webhooks, so that the number of lanes grows and that of connections does not.
const HOSTS: usize = 100;

/// Connections that create webhooks.
const CREATORS: usize = 32;

/// Above this number of deliveries a single run is long enough.
const FEW: usize = 10_000;

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let mut meter = Meter::of(stack).await?;
    let mut rows = Vec::new();
    for due in BACKLOGS.map(|due| effort.of(due)) {
        let drains = to_one(stack, &mut meter, effort, due).await?;
        rows.extend(rows_of(&format!("{due} due to one webhook"), &drains));
    }
    let deliveries = effort.of(DELIVERIES);
    let webhooks = WEBHOOKS.map(|webhooks| effort.of(webhooks).max(1));
    for webhooks in webhooks {
        let drained = to_many(stack, &mut meter, deliveries, webhooks).await?;
        rows.extend(rows_of(&format!("{deliveries} due, webhooks: {webhooks}"), &[drained]));
    }
    let (due, idle) = (effort.of(ALONE), webhooks.iter().sum::<usize>());
    let drains = to_one(stack, &mut meter, effort, due).await?;
    rows.extend(rows_of(&format!("{due} due to one webhook, {idle} idle"), &drains));
    Ok(rows)
}

/// Drains the due deliveries of one webhook.
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
        let drained = drain(meter, &mut shop, due / products, 1, How::default()).await?;
        if run > 0 {
            drains.push(drained);
        } else if due > FEW {
            return Ok(vec![drained]);
        }
    }
    Ok(drains)
}

/// Drains the due deliveries of many webhooks, the same number for each. The dispatcher has to find their
/// lanes, so the rate counts from the first receipt.
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
    // directly in SQL: otherwise ten thousand requests to activate them would be measured
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
    released(meter, &shop, &receiver, (deliveries, deliveries), release).await
}
