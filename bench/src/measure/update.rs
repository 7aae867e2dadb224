//! Concurrent single updates over HTTP, each with a webhook.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use longshore_testkit::receiver::Receiver;
use longshore_testkit::stack::Stack;
use uuid::Uuid;

use super::drain::{BARE_LOOP, bare_loop};
use super::floor::Psql;
use super::load::{self, runs};
use super::meter::{self, Meter};
use super::{Effort, Floor, Reach, Row, median};
use longshore_demo::catalogue::Catalogue;
use longshore_demo::site::Site;

/// Updates of a run.
const UPDATES: usize = 20_000;

/// Connections that send the requests.
const CONNECTIONS: usize = 32;

/// Rows of a statement of the floor: about as many as updates of the same moment share one.
const COMPANY: usize = 10;

/// A run that takes longer hangs.
const HUNG: Duration = Duration::from_mins(3);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(UPDATES);
    let site = Site::on(stack, "update").await?;
    let job = site.api.sync_products(Catalogue::made_up(count).body(site.eshop)).await?;
    site.api.job_ended(job.id, HUNG).await?;
    let products = site.api.products(site.organisation).await?;

    let mut meter = Meter::of(stack).await?;
    let mut bare = BareRows::on(stack, &site).await?;
    let (mut figures, mut floors, mut taken, mut bare_taken) = (vec![], vec![], vec![], vec![]);
    for run in runs(effort) {
        let floor = bare_loop(count, 1).await?;
        let receiver = Receiver::counting().await?;
        let webhook = site.api.create_webhook(site.eshop, "product_change", &receiver.url("/")).await?;
        let name = format!("Renamed {run} times");
        let before = meter.start().await?;
        bare.write(&products, &format!("Renamed {run} times by the floor")).await?;
        let of_rows = meter.since(before, count)?;
        let before = meter.start().await?;
        let started = Instant::now();
        load::rate(count, CONNECTIONS, |n| site.api.rename_product(products[n], &name)).await?;
        receiver.wait_for_ids(count, HUNG).await?;
        let took = receiver.latest().context("nothing came")?.duration_since(started);
        let spent = meter.taken(before, site.eshop, count).await?;
        if run > 0 {
            figures.push(f64::from(u32::try_from(count)?) / took.as_secs_f64());
            floors.push(floor);
            taken.push(spent);
            bare_taken.push(of_rows.postgres);
        }
        site.api.delete_webhook(webhook.id).await?;
    }
    let what = format!("{count} single updates, {CONNECTIONS} connections, to the last webhook");
    let floor = Floor::median(floors, BARE_LOOP);
    let mut rows = vec![Row::relative(what, median(figures), "1/s", floor, Reach::RatioAtLeast(0.17))];
    rows.extend(meter::rows(&format!("{count} single updates"), &taken, Reach::Anywhere, Reach::Anywhere));
    let of_postgres = median(taken.iter().map(|taken| taken.postgres).collect());
    let floor =
        Floor::median(bare_taken, "the same rows as bare SQL, ten in a statement, over one connection");
    let what = format!("CPU of 1,000, {count} single updates: Postgres, beside bare rows");
    rows.push(Row::relative(what, of_postgres, "ms", floor, Reach::RatioAtMost(2.0)));
    Ok(rows)
}

/// The rows of updates as bare SQL: products, their audit records, events and deliveries; and deliveries that have ended.
struct BareRows {
    psql: Psql,
    organisation: Uuid,
    eshop: Uuid,
    webhook: Uuid,
}

impl BareRows {
    async fn on(stack: &Stack, site: &Site) -> anyhow::Result<Self> {
        let mut psql = Psql::connect(stack).await?;
        // as the service has it
        psql.run(
            "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off",
        )
        .await?;
        let receiver = Receiver::counting().await?;
        // of an event that updates do not have: only the floor writes deliveries for it
        let webhook =
            site.api.create_webhook(site.eshop, "stock_advice_status_change", &receiver.url("/")).await?.id;
        Ok(Self { psql, organisation: site.organisation, eshop: site.eshop, webhook })
    }

    async fn write(&mut self, products: &[Uuid], name: &str) -> anyhow::Result<()> {
        let Self { organisation, eshop, webhook, .. } = self;
        let change = format!(
            "WITH target AS MATERIALIZED (
                 SELECT id, name FROM product WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE
             ), written AS (
                 UPDATE product p SET name = '{name}', version = p.version + 1, changed_at = now()
                 FROM target t WHERE p.id = t.id RETURNING p.id, p.product_sku, p.version, t.name AS was
             ), change AS MATERIALIZED (
                 SELECT uuid_v7() AS event, * FROM written
             ), audited AS (
                 INSERT INTO audit (id, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes)
                 SELECT event, 'api_token', 'floor', 'product.update', 'product', id, '{organisation}',
                        jsonb_build_object('name', jsonb_build_array(was, '{name}'))
                 FROM change
             ), events AS (
                 INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data)
                 SELECT event, 'product_change', '{organisation}', 'product', id,
                        jsonb_build_object('id', id, 'productSku', product_sku, 'eshops', jsonb_build_array('{eshop}'),
                                           'changes', jsonb_build_array('name'), 'version', version)
                 FROM change
             )
             INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
             SELECT uuid_v7(), '{webhook}', '{eshop}', event, now() + interval '1 hour' FROM change
             RETURNING id"
        );
        let end = format!(
            "WITH ended AS (
                 DELETE FROM delivery WHERE id = ANY ($1) RETURNING id, event_id, created_at
             )
             INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
                                           attempt_count, attempts, created_at, finished_at)
             SELECT id, '{webhook}', '{eshop}', '{organisation}', event_id, 'product_change', event_id, 'delivered', 1,
                    jsonb_build_array(jsonb_build_object('number', 1, 'at', created_at, 'durationMs', 1, 'status', 204,
                                                         'error', null, 'response', '')), created_at, now()
             FROM ended RETURNING id"
        );
        for some in products.chunks(COMPANY) {
            let deliveries = self.psql.with_ids(&change, some).await?;
            let ended = self.psql.with_ids(&end, &deliveries).await?;
            ensure!(ended.len() == some.len(), "the floor wrote {} of {} rows", ended.len(), some.len());
        }
        Ok(())
    }
}
