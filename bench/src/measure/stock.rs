//! A partner's stock counts as NDJSON, each with a new quantity.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::ensure;
use longshore_testkit::stack::Stack;

use super::floor::Psql;
use super::load::{milliseconds, runs};
use super::{Effort, Floor, Reach, Row, median};
use longshore_demo::catalogue::Catalogue;
use longshore_demo::site::Site;

/// Counts of a run.
const COUNTS: usize = 100_000;

/// A run that takes longer hangs.
const HUNG: Duration = Duration::from_mins(5);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(COUNTS);
    let site = Site::on(stack, "stock").await?;
    let job = site.api.sync_products(Catalogue::made_up(count).body(site.eshop)).await?;
    site.api.job_ended(job.id, HUNG).await?;
    let mut psql = Psql::connect(stack).await?;
    psql.run("CREATE TEMPORARY TABLE counted (sku text NOT NULL, quantity int NOT NULL)").await?;

    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for run in runs(effort) {
        let mut rows = String::new();
        for n in 0..count {
            _ = writeln!(rows, "MU-{n:07}\t{}", 2 * run + 1);
        }
        psql.run("TRUNCATE counted").await?;
        psql.settle().await?;
        let started = Instant::now();
        psql.copy("COPY counted FROM STDIN", rows.as_bytes()).await?;
        psql.run(&upsert(&site)).await?;
        let floor = milliseconds(started);

        let mut body = serde_json::json!({ "eshop": site.eshop, "warehouseId": site.warehouse }).to_string();
        for n in 0..count {
            _ = write!(body, "\n{{\"productSku\":\"MU-{n:07}\",\"quantity\":{}}}", 2 * run + 2);
        }
        psql.settle().await?;
        let started = Instant::now();
        let job = site.api.sync_stocks(body).await?;
        let job = site.api.job_ended(job.id, HUNG).await?;
        let figure = milliseconds(started);
        ensure!(job.progress.changed == count as u64, "not all counts were taken: {job:?}");
        if run > 0 {
            floors.push(floor);
            ours.push(figure);
        }
    }
    let is = "COPY to a temporary table, then counts and audit rows in one INSERT … SELECT … ON CONFLICT";
    let floor = Floor::median(floors, is);
    let what = format!("stock sync of {count} counts, each changed");
    Ok(vec![Row::relative(what, median(ours), "ms", floor, Reach::RatioAtMost(3.0))])
}

/// The same in SQL; the audit needs the previous quantities.
fn upsert(site: &Site) -> String {
    let (organisation, warehouse) = (site.organisation, site.warehouse);
    format!(
        "WITH wanted AS MATERIALIZED (
             SELECT p.id AS product, w.default_wms_id AS wms, c.quantity, s.quantity AS was
             FROM counted c
             JOIN product p ON p.organisation_id = '{organisation}' AND p.product_sku = c.sku
             JOIN warehouse w ON w.id = '{warehouse}'
             LEFT JOIN product_stock s
                 ON s.product_id = p.id AND s.warehouse_id = w.id AND s.wms_id = w.default_wms_id
         ), written AS (
             INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
             SELECT uuid_v7(), '{organisation}', product, '{warehouse}', wms, quantity FROM wanted
             ON CONFLICT (product_id, warehouse_id, wms_id) DO UPDATE
             SET quantity = excluded.quantity, changed_at = now()
             WHERE product_stock.quantity <> excluded.quantity
             RETURNING id, product_id, quantity
         )
         INSERT INTO audit (id, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes)
         SELECT uuid_v7(), 'user', 'floor', 'product_stock.sync', 'product_stock', r.id, '{organisation}',
                jsonb_build_object('quantity', jsonb_build_array(w.was, r.quantity))
         FROM written r JOIN wanted w ON w.product = r.product_id"
    )
}
