//! Switching a whole catalogue off: alone, compared with the same in SQL, and with a webhook for each
//! product.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use longshore_testkit::receiver::Receiver;
use longshore_testkit::stack::Stack;
use uuid::Uuid;

use super::floor::Psql;
use super::load::{milliseconds, runs};
use super::{Effort, Floor, Reach, Row, median};
use longshore_demo::catalogue::Catalogue;
use longshore_demo::site::Site;

/// Products of a run: the maximum of a bulk call.
const PRODUCTS: usize = 100_000;

/// A run that takes longer hangs.
const HUNG: Duration = Duration::from_mins(5);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(PRODUCTS);
    let site = Site::on(stack, "bulk").await?;
    let mut psql = Psql::connect(stack).await?;
    let job = site.api.sync_products(Catalogue::made_up(count).body(site.eshop)).await?;
    site.api.job_ended(job.id, HUNG).await?;
    let products = site.api.products(site.organisation).await?;

    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for run in runs(effort) {
        psql.settle().await?;
        let floor = psql.timed(&update(site.organisation)).await?;
        restore(&mut psql, &site).await?;
        let figure = switch(&site, &products).await?;
        restore(&mut psql, &site).await?;
        if run > 0 {
            floors.push(floor);
            ours.push(figure);
        }
    }
    let mut rates = Vec::new();
    for run in runs(effort) {
        let figure = switch_and_tell(&site, &products).await?;
        restore(&mut psql, &site).await?;
        if run > 0 {
            rates.push(figure);
        }
    }
    let floor = Floor::median(floors, "the same UPDATE with its audit rows, one statement");
    let what = format!("bulk deactivate {count} products, no webhook");
    Ok(vec![
        Row::relative(what, median(ours), "ms", floor, Reach::RatioAtMost(2.0)),
        Row::absolute(
            format!("bulk deactivate {count} products, to the last of their webhooks"),
            median(rates),
            "1/s",
            Reach::AtLeast(15_000.0),
        ),
    ])
}

/// The time from the request to the end of the job, in milliseconds.
async fn switch(site: &Site, products: &[Uuid]) -> anyhow::Result<f64> {
    let started = Instant::now();
    let job = site.api.switch_products(false, products).await?;
    let job = site.api.job_ended(job.id, HUNG).await?;
    let took = milliseconds(started);
    ensure!(job.progress.changed == products.len() as u64, "not all were switched: {job:?}");
    Ok(took)
}

/// Deliveries per second, from the request to the last receipt.
async fn switch_and_tell(site: &Site, products: &[Uuid]) -> anyhow::Result<f64> {
    let receiver = Receiver::counting().await?;
    let webhook = site.api.create_webhook(site.eshop, "product_change", &receiver.url("/")).await?;
    let started = Instant::now();
    site.api.switch_products(false, products).await?;
    receiver.wait_for_ids(products.len(), HUNG).await?;
    let took = receiver.latest().context("nothing came")?.duration_since(started);
    site.api.delete_webhook(webhook.id).await?;
    Ok(f64::from(u32::try_from(products.len())?) / took.as_secs_f64())
}

/// Switches all on again, without webhooks.
async fn restore(psql: &mut Psql, site: &Site) -> anyhow::Result<()> {
    let organisation = site.organisation;
    psql.run(&format!("UPDATE product SET active = true WHERE organisation_id = '{organisation}'")).await?;
    psql.settle().await
}

/// The same in SQL: the change, and an audit row for each product.
fn update(organisation: Uuid) -> String {
    format!(
        "WITH target AS MATERIALIZED (
             SELECT id, active FROM product WHERE organisation_id = '{organisation}' ORDER BY id FOR UPDATE
         ), written AS (
             UPDATE product p SET active = false, changed_at = now() FROM target t WHERE p.id = t.id
             RETURNING p.id, t.active AS was
         )
         INSERT INTO audit (id, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes)
         SELECT uuid_v7(), 'user', 'floor', 'product.deactivate', 'product', id, '{organisation}',
                jsonb_build_object('active', jsonb_build_array(was, false))
         FROM written"
    )
}
