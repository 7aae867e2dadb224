//! What a warehouse reports, as NDJSON: each order is packed, into one parcel.

use std::fmt::Write as _;
use std::time::Instant;

use longshore_testkit::stack::Stack;
use serde_json::json;
use uuid::Uuid;

use super::depot::{Depot, HUNG, items, succeeded};
use crate::measure::floor::Psql;
use crate::measure::load::{milliseconds, runs};
use crate::measure::{Effort, Floor, Reach, Row, median};
use longshore_demo::site::operator_of;

/// Reports of a run.
const NEWS: usize = 100_000;

/// Different products.
const PRODUCTS: usize = 10_000;

/// More pieces than are ever wanted.
const PLENTY: i64 = 1_000_000;

pub(in crate::measure) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(NEWS);
    let bare = Depot::on(stack, "bare news", PRODUCTS, PLENTY).await?;
    let depot = Depot::on(stack, "news", PRODUCTS, PLENTY).await?;
    let operator = operator_of(stack).await?;
    let mut psql = Psql::connect(stack).await?;
    psql.run("CREATE TEMPORARY TABLE reported (n bigserial, row jsonb NOT NULL)").await?;
    let (mut figures, mut floors) = (Vec::new(), Vec::new());
    for run in runs(effort) {
        for depot in [&bare, &depot] {
            depot.empty(&mut psql, PLENTY).await?;
            let rows = (0..count).map(|n| depot.row(&format!("N-{n}"), &items(n, PRODUCTS)));
            depot.imported(depot.import(rows), count).await?;
        }
        psql.settle().await?;
        let rows = reports(run, &ids(&bare, &mut psql).await?);
        let started = Instant::now();
        psql.run("TRUNCATE reported").await?;
        psql.copy("COPY reported (row) FROM STDIN", rows.as_bytes()).await?;
        psql.run("ANALYZE reported").await?;
        psql.run(&sets(&bare)).await?;
        let floor = milliseconds(started);
        psql.settle().await?;

        let wms: Uuid = psql
            .ask(&format!("SELECT default_wms_id FROM warehouse WHERE id = '{}'", depot.site.warehouse))
            .await?;
        let header = json!({ "wms": wms });
        let body = format!("{header}\n{}", reports(run, &ids(&depot, &mut psql).await?));
        let started = Instant::now();
        let job = operator.report_all_news(body).await?;
        succeeded(&operator.job_ended(job.id, HUNG).await?, count)?;
        let figure = milliseconds(started);
        psql.settle().await?;
        if run > 0 {
            floors.push(floor);
            figures.push(figure);
        }
    }
    let floor = Floor::median(floors, "COPY of the rows, then sets in one transaction");
    let name = format!("{count} orders that a warehouse reports as packed");
    Ok(vec![Row::relative(name, median(figures), "ms", floor, Reach::RatioAtMost(3.0))])
}

/// The orders of a depot, by their numbers.
async fn ids(depot: &Depot, psql: &mut Psql) -> anyhow::Result<Vec<Uuid>> {
    let eshop = depot.site.eshop;
    psql.ask(&format!(
        "SELECT array_agg(id ORDER BY order_number) FROM expedition_detail WHERE eshop_id = '{eshop}'"
    ))
    .await
}

fn reports(run: usize, orders: &[Uuid]) -> String {
    let mut rows = String::new();
    for (n, order) in orders.iter().enumerate() {
        let row = json!({
            "id": format!("R-{run}-{n}"), "expedition": order, "status": "waiting_for_the_carrier",
            "at": "2026-11-02T10:00:00Z",
            "parcels": [{"extPackageNumber": format!("P-{n}"), "extPackageTrackingNumber": format!("T{n}"),
                         "trackingUrl": format!("https://carrier.example/T{n}")}],
        });
        // writing to a string cannot fail
        _ = writeln!(rows, "{row}");
    }
    rows
}

/// The same in SQL: orders, items, movements, stocks, parcels, tracking numbers, audit, and which reports were taken.
fn sets(bare: &Depot) -> String {
    let (of, warehouse) = (bare.site.organisation, bare.site.warehouse);
    format!(
        "BEGIN;
         CREATE TEMPORARY TABLE news ON COMMIT DROP AS
             SELECT (row->>'expedition')::uuid AS id, row, row->'parcels'->0 AS parcel FROM reported;
         ANALYZE news;
         UPDATE expedition e
         SET status = 'waiting_for_the_carrier', packed_at = (t.row->>'at')::timestamptz, expedited_completely = true,
             version = e.version + 1
         FROM news t WHERE e.id = t.id;
         CREATE TEMPORARY TABLE gone ON COMMIT DROP AS
             WITH packed AS (
                 UPDATE expedition_item i SET expedited = quantity, changed_at = now() FROM news t
                 WHERE i.expedition_id = t.id RETURNING i.id, i.expedition_id, i.product_id, i.quantity
             )
             SELECT p.*, s.wms_id, s.id AS stock FROM packed p
             JOIN product_stock s ON s.product_id = p.product_id AND s.warehouse_id = '{warehouse}';
         ANALYZE gone;
         INSERT INTO stock_movement (id, organisation_id, product_id, warehouse_id, wms_id, kind, quantity, incoming,
                                     expedition_id, expedition_item_id, actor_type, actor_name)
         SELECT uuid_v7(), '{of}', product_id, '{warehouse}', wms_id, 'expedited', -quantity, 0, expedition_id, id, 'user', 'floor'
         FROM gone;
         UPDATE product_stock s SET quantity = s.quantity - g.n, held = s.held - g.n, version = s.version + 1
         FROM (SELECT stock, sum(quantity) AS n FROM gone GROUP BY 1) g WHERE s.id = g.stock;
         INSERT INTO expedition_parcel (id, expedition_id, ext_package_number, ext_package_tracking_number, tracking_url)
         SELECT uuid_v7(), id, parcel->>'extPackageNumber', parcel->>'extPackageTrackingNumber', parcel->>'trackingUrl' FROM news;
         UPDATE expedition_detail d
         SET tracking_number = t.parcel->>'extPackageTrackingNumber', tracking_url = t.parcel->>'trackingUrl'
         FROM news t WHERE d.id = t.id;
         INSERT INTO audit (id, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes)
         SELECT uuid_v7(), 'user', 'floor', 'expedition.news', 'expedition', id, '{of}',
                jsonb_build_object('status', jsonb_build_array('awaiting_processing', 'waiting_for_the_carrier'), 'news', row)
         FROM news;
         INSERT INTO wms_news (wms_id, id, expedition_id, digest)
         SELECT (SELECT default_wms_id FROM warehouse WHERE id = '{warehouse}'), row->>'id', id, sha256(row::text::bytea)
         FROM news;
         COMMIT"
    )
}
