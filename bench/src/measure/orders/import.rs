//! Orders as NDJSON: all rows new and booked, then all unchanged.

use std::fmt::Write as _;
use std::time::Instant;

use longshore_testkit::stack::Stack;
use serde_json::Value;

use super::depot::{Depot, items};
use crate::measure::floor::Psql;
use crate::measure::load::{milliseconds, runs};
use crate::measure::{Effort, Floor, Reach, Row, median};

/// Orders of a run.
const ORDERS: usize = 100_000;

/// Different products.
const PRODUCTS: usize = 10_000;

/// More pieces than are ever wanted.
const PLENTY: i64 = 1_000_000;

pub(in crate::measure) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(ORDERS);
    let bare = Depot::on(stack, "bare import", PRODUCTS, PLENTY).await?;
    let depot = Depot::on(stack, "import", PRODUCTS, PLENTY).await?;
    let mut psql = Psql::connect(stack).await?;
    psql.run("CREATE TEMPORARY TABLE given (n bigserial, row jsonb NOT NULL)").await?;
    let rows: Vec<Value> = (0..count).map(|n| depot.row(&format!("I-{n}"), &items(n, PRODUCTS))).collect();
    let mut copied = String::new();
    for row in &rows {
        // writing to a string cannot fail
        _ = writeln!(copied, "{row}");
    }
    let body = depot.import(rows.into_iter());
    let (mut new, mut new_floors) = (Vec::new(), Vec::new());
    let (mut again, mut again_floors) = (Vec::new(), Vec::new());
    for run in runs(effort) {
        bare.empty(&mut psql, PLENTY).await?;
        let started = Instant::now();
        copy(&mut psql, &copied).await?;
        psql.run(&sets(&bare)).await?;
        let floor = milliseconds(started);
        psql.settle().await?;
        let started = Instant::now();
        copy(&mut psql, &copied).await?;
        psql.timed(&compare(&bare)).await?;
        let compared = milliseconds(started);

        depot.empty(&mut psql, PLENTY).await?;
        let started = Instant::now();
        depot.imported(body.clone(), count).await?;
        depot.until(&mut psql, "awaiting_processing", count).await?;
        let figure = milliseconds(started);
        psql.settle().await?;
        let started = Instant::now();
        depot.imported(body.clone(), 0).await?;
        let same = milliseconds(started);
        if run > 0 {
            new_floors.push(floor);
            new.push(figure);
            again_floors.push(compared);
            again.push(same);
        }
    }
    let new_floor = Floor::median(new_floors, "COPY of the rows, then sets in one transaction");
    let again_floor = Floor::median(again_floors, "COPY of the rows, then comparing in SQL");
    Ok(vec![
        Row::relative(
            format!("import of {count} orders, to the last booking"),
            median(new),
            "ms",
            new_floor,
            Reach::RatioAtMost(3.0),
        ),
        Row::relative(
            format!("the same import of {count} again"),
            median(again),
            "ms",
            again_floor,
            Reach::RatioAtMost(6.0),
        ),
    ])
}

async fn copy(psql: &mut Psql, rows: &str) -> anyhow::Result<()> {
    psql.run("TRUNCATE given").await?;
    psql.copy("COPY given (row) FROM STDIN", rows.as_bytes()).await?;
    psql.run("ANALYZE given").await
}

/// The same in SQL: orders, details, items, bookings and audit.
fn sets(bare: &Depot) -> String {
    let (of, eshop, warehouse) = (bare.site.organisation, bare.site.eshop, bare.site.warehouse);
    format!(
        "BEGIN;
         CREATE TEMPORARY TABLE wanted ON COMMIT DROP AS
             SELECT g.n, uuid_v7() AS item, i.position, p.id AS product, (i.item->>'quantity')::int AS quantity, s.id AS stock,
                    s.wms_id
             FROM given g CROSS JOIN jsonb_array_elements(g.row->'items') WITH ORDINALITY AS i (item, position)
             JOIN product p ON p.organisation_id = '{of}' AND p.product_sku = i.item->>'productSku'
             JOIN product_stock s ON s.product_id = p.id AND s.warehouse_id = '{warehouse}';
         CREATE TEMPORARY TABLE made ON COMMIT DROP AS SELECT n, uuid_v7() AS id, row FROM given;
         ANALYZE wanted, made;
         INSERT INTO expedition (id, organisation_id, eshop_id, warehouse_id, wms_id, status, priority, count_of_items,
                                 count_of_sku, sum_of_quantity)
         SELECT m.id, '{of}', '{eshop}', '{warehouse}', w.wms_id, 'awaiting_processing', 0, count(*), count(*), sum(w.quantity)
         FROM made m JOIN wanted w USING (n) GROUP BY m.id, w.wms_id;
         INSERT INTO expedition_detail (id, eshop_id, order_number, external_id, value, currency, carrier_id,
             delivery_method, billing_first_name, billing_last_name, billing_street, billing_house_nr, billing_zip,
             billing_city, billing_country, billing_email, billing_phone, delivery_first_name, delivery_last_name,
             delivery_street, delivery_house_nr, delivery_zip, delivery_city, delivery_country, delivery_email,
             delivery_phone, different_delivery_address, cod, ignore_address_validation, fragile, note, ref1, services,
             removed_virtual_products, digest)
         SELECT id, '{eshop}', row->>'orderNumber', row->>'externalId', (row->>'value')::numeric, row->>'currency',
                (row->>'carrier')::uuid, row->>'deliveryMethod', row->>'billingFirstName', row->>'billingLastName',
                row->>'billingStreet', row->>'billingHouseNr', row->>'billingZip', row->>'billingCity', row->>'billingCountry',
                row->>'billingEmail', row->>'billingPhone', row->>'billingFirstName', row->>'billingLastName',
                row->>'billingStreet', row->>'billingHouseNr', row->>'billingZip', row->>'billingCity', row->>'billingCountry',
                row->>'billingEmail', row->>'billingPhone', false, false, false, false, row->>'note', row->>'ref1', '{{}}', '[]',
                sha256(row::text::bytea)
         FROM made;
         INSERT INTO expedition_item (id, expedition_id, position, product_id, quantity, product_value, lifo)
         SELECT w.item, m.id, w.position, w.product, w.quantity, 12.5, false FROM wanted w JOIN made m USING (n);
         UPDATE product_stock s SET held = s.held + w.quantity
         FROM (SELECT stock, sum(quantity) AS quantity FROM wanted GROUP BY 1) w WHERE s.id = w.stock;
         INSERT INTO audit (id, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes)
         SELECT uuid_v7(), 'user', 'floor', a.action, 'expedition', m.id, '{of}',
                jsonb_build_object('status', jsonb_build_array(a.was, a.becomes), 'orderNumber', row->'orderNumber')
         FROM made m,
              (VALUES ('expedition.create', null, 'on_hold'), ('expedition.send', 'on_hold', 'awaiting_processing'))
                  AS a (action, was, becomes);
         COMMIT"
    )
}

/// The comparison in SQL: it finds no differences.
fn compare(bare: &Depot) -> String {
    let eshop = bare.site.eshop;
    format!(
        "SELECT g.n FROM given g
         LEFT JOIN expedition_detail d ON d.eshop_id = '{eshop}' AND d.order_number = g.row->>'orderNumber'
         WHERE d.digest IS DISTINCT FROM sha256(g.row::text::bytea)"
    )
}
