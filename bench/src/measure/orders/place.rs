//! Orders that are created and sent one by one, over many connections at once.

use anyhow::ensure;
use longshore_testkit::stack::Stack;
use sqlx::postgres::PgPoolOptions;
use uuid::Uuid;

use super::depot::{Depot, Wanted, items};
use crate::measure::floor::Psql;
use crate::measure::load::{self, runs};
use crate::measure::{Effort, Floor, Reach, Row, median};

/// Orders of a run.
const ORDERS: usize = 10_000;

/// Orders of a run of one stock, as bare SQL.
const HOT_ORDERS: usize = 2_000;

/// Different products.
const PRODUCTS: usize = 10_000;

/// More pieces than are ever wanted.
const PLENTY: i64 = 1_000_000;

/// Connections that send the requests.
const CONNECTIONS: usize = 32;

/// Orders of a stock that has a fifth of the pieces.
const CROWD: usize = 5_000;

const FLOOR: &str = "one statement an order, bare SQL, as many connections";

pub(in crate::measure) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let (count, hot) = (effort.of(ORDERS), effort.of(HOT_ORDERS));
    let (bare, depot) = (
        Depot::on(stack, "bare orders", PRODUCTS, PLENTY).await?,
        Depot::on(stack, "orders", PRODUCTS, PLENTY).await?,
    );
    let mut psql = Psql::connect(stack).await?;
    let spread = |n: usize| items(n, PRODUCTS);
    // everybody wants the first product, and some want another beside
    let crowded = |n: usize| {
        let mut items = items(n, PRODUCTS);
        items[0] = (0, 1);
        items
    };
    let (mut ours, mut floors, mut hot_ours, mut hot_floors) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in runs(effort) {
        psql.settle().await?;
        let floor = placed_bare(stack, &bare, count, &format!("S{run}"), spread).await?;
        psql.settle().await?;
        let figure = placed(&depot, count, &format!("S{run}"), spread).await?;
        psql.settle().await?;
        let hot_floor = placed_bare(stack, &bare, hot, &format!("H{run}"), crowded).await?;
        psql.settle().await?;
        let hot_figure = placed(&depot, count, &format!("H{run}"), crowded).await?;
        if run > 0 {
            floors.push(floor);
            ours.push(figure);
            hot_floors.push(hot_floor);
            hot_ours.push(hot_figure);
        }
    }
    let (ours, hot_ours) = (median(ours), median(hot_ours));
    Ok(vec![
        Row::relative(
            format!("{count} orders sent, {PRODUCTS} stocks, {CONNECTIONS} connections"),
            ours,
            "1/s",
            Floor::median(floors, FLOOR),
            Reach::RatioAtLeast(0.5),
        ),
        Row::relative(
            format!("{count} orders sent, one stock that all want"),
            hot_ours,
            "1/s",
            Floor::median(hot_floors, FLOOR),
            Reach::RatioAtLeast(3.0),
        ),
        Row::relative(
            "the same, compared with orders of many stocks",
            hot_ours,
            "1/s",
            Floor::of(ours, "the row of many stocks"),
            Reach::RatioAtLeast(0.8),
        ),
        crowd(stack, effort).await?,
    ])
}

/// A stock that is wanted five times as often as it has pieces: what it has is booked, and the others wait.
async fn crowd(stack: &Stack, effort: Effort) -> anyhow::Result<Row> {
    let count = effort.of(CROWD);
    let pieces = count / 5;
    let depot = Depot::on(stack, "crowd", 1, i64::try_from(pieces)?).await?;
    let figure = placed(&depot, count, "C", |_| vec![(0, 1)]).await?;
    let mut psql = Psql::connect(stack).await?;
    let booked = depot.count_of(&mut psql, "awaiting_processing").await?;
    let waiting = depot.count_of(&mut psql, "waiting_for_goods").await?;
    let is_right = booked == i64::try_from(pieces)? && waiting == i64::try_from(count - pieces)?;
    ensure!(is_right, "{booked} are booked and {waiting} wait, of {pieces} pieces and {count} orders");
    let what = format!("a stock of {pieces} wanted {count} times: exactly {pieces} booked");
    Ok(Row::absolute(what, figure, "1/s", Reach::Anywhere))
}

/// Orders per second over HTTP, to the answer, which comes after the commit.
async fn placed(
    depot: &Depot,
    count: usize,
    prefix: &str,
    items: impl Fn(usize) -> Vec<Wanted>,
) -> anyhow::Result<f64> {
    load::rate(count, CONNECTIONS, |n| {
        let (number, items) = (format!("{prefix}-{n}"), items(n));
        async move { depot.place(&number, &items).await }
    })
    .await
}

/// Orders per second by bare SQL.
async fn placed_bare(
    stack: &Stack,
    depot: &Depot,
    count: usize,
    prefix: &str,
    items: impl Fn(usize) -> Vec<Wanted>,
) -> anyhow::Result<f64> {
    let most = u32::try_from(CONNECTIONS)?;
    let pool = PgPoolOptions::new()
        .min_connections(most)
        .max_connections(most)
        .connect(stack.database_url.as_str())
        .await?;
    let rate = load::rate(count, CONNECTIONS, |n| {
        let (number, items, pool) = (format!("{prefix}-{n}"), items(n), &pool);
        let products: Vec<Uuid> = items.iter().map(|(n, _)| depot.products[*n]).collect();
        let quantities: Vec<i64> = items.iter().map(|(_, quantity)| *quantity).collect();
        async move {
            sqlx::query(BARE)
                .bind(depot.site.organisation)
                .bind(depot.site.eshop)
                .bind(depot.site.warehouse)
                .bind(number)
                .bind(depot.carrier)
                .bind(products)
                .bind(quantities)
                .execute(pool)
                .await?;
            Ok(())
        }
    })
    .await?;
    pool.close().await;
    Ok(rate)
}

/// An order, its items, its bookings and its audit by one statement.
const BARE: &str = "WITH wanted AS MATERIALIZED (
         SELECT s.id, s.product_id, s.wms_id, w.quantity, w.position
         FROM unnest($6::uuid[], $7::bigint[]) WITH ORDINALITY AS w (product, quantity, position)
         JOIN warehouse h ON h.id = $3
         JOIN product_stock s ON s.product_id = w.product AND s.warehouse_id = h.id AND s.wms_id = h.default_wms_id
     ), locked AS MATERIALIZED (
         SELECT id, quantity - held AS free FROM product_stock WHERE id IN (SELECT id FROM wanted) ORDER BY id FOR UPDATE
     ), decided AS MATERIALIZED (
         SELECT uuid_v7() AS id, bool_and(l.free >= w.quantity) AS fits
         FROM (SELECT id, sum(quantity) AS quantity FROM wanted GROUP BY id) w JOIN locked l USING (id)
     ), booked AS (
         UPDATE product_stock s SET held = s.held + w.quantity
         FROM (SELECT id, sum(quantity) AS quantity FROM wanted GROUP BY id) w, decided
         WHERE s.id = w.id AND decided.fits
     ), head AS (
         INSERT INTO expedition (id, organisation_id, eshop_id, warehouse_id, wms_id, status, priority, count_of_items,
                                 count_of_sku, sum_of_quantity)
         SELECT d.id, $1, $2, $3, (SELECT wms_id FROM wanted LIMIT 1),
                CASE WHEN d.fits THEN 'awaiting_processing' ELSE 'on_hold' END, 0, count(*), count(*), sum(w.quantity)
         FROM decided d, wanted w GROUP BY d.id, d.fits
     ), detail AS (
         INSERT INTO expedition_detail (id, eshop_id, order_number, external_id, value, currency, carrier_id,
             delivery_method, billing_first_name, billing_last_name, billing_street, billing_house_nr, billing_zip,
             billing_city, billing_country, billing_email, billing_phone, delivery_first_name, delivery_last_name,
             delivery_street, delivery_house_nr, delivery_zip, delivery_city, delivery_country, delivery_email,
             delivery_phone, different_delivery_address, cod, ignore_address_validation, fragile, note, ref1, services,
             removed_virtual_products)
         SELECT id, $2, $4, 'shop-' || $4, 37.4, 'EUR', $5, 'standard', 'Ada', 'Byron', 'Quay Street', '12b', 'BS1 4QA',
                'Bristol', 'GB', 'ada@example.com', '+44 117 496 0000', 'Ada', 'Byron', 'Quay Street', '12b', 'BS1 4QA',
                'Bristol', 'GB', 'ada@example.com', '+44 117 496 0000', false, false, false, false, 'Please ring twice',
                'basket 7', '{}', '[]'
         FROM decided
     ), items AS (
         INSERT INTO expedition_item (id, expedition_id, position, product_id, quantity, product_value, lifo)
         SELECT uuid_v7(), d.id, w.position, w.product_id, w.quantity, 12.5, false FROM decided d, wanted w
     )
     INSERT INTO audit (id, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes)
     SELECT uuid_v7(), 'user', 'floor', a.action, 'expedition', d.id, $1,
            jsonb_build_object('status', jsonb_build_array(a.was, a.becomes), 'orderNumber', jsonb_build_array(null, $4))
     FROM decided d,
          (VALUES ('expedition.create', null, 'on_hold'), ('expedition.send', 'on_hold', 'awaiting_processing'))
              AS a (action, was, becomes)";
