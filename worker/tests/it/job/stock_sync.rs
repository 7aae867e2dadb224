use longshore_domain::job::payload::ROWS_PER_CHUNK;
use longshore_domain::partner::push::Push::Stocks;
use longshore_kernel::access::Scope;
use longshore_kernel::migration::MIGRATIONS;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

fn row(product: usize, quantity: i32) -> String {
    format!(r#"{{"productSku":"P{product}","quantity":{quantity}}}"#)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn only_differences_are_written_and_sent(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.webhook("product_stock_change").await;
    world.products(3).await;
    let job = world.sync(Stocks, [row(0, 1), row(1, 2), row(2, 3)]).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));
    let job = world.sync(Stocks, [row(0, 1), row(1, 5), row(2, 3)]).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 2, 0]));
    assert_eq!(world.count("SELECT count(*) FROM delivery").await, 4);
    assert_eq!(
        world
            .count(
                "SELECT count(*) FROM audit WHERE action = 'product_stock.sync' AND changes = '{\"quantity\": [2, 5]}'"
            )
            .await,
        1
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn fewer_pieces_than_none_are_none_with_a_notice(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(2).await;
    world.sync(Stocks, [row(0, 5), row(1, 5)]).await;
    world.drain().await;
    let job = world.sync(Stocks, [row(0, -3), row(1, 0)]).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 0]));
    assert_eq!(world.errors(job).await, ["0 P0 notice"]);
    let message: String =
        sqlx::query_scalar("SELECT message FROM job_item_error").fetch_one(&world.owner).await.unwrap();
    assert_eq!(message, "quantity was -3, and is taken as 0");
    assert_eq!(world.count("SELECT sum(quantity)::bigint FROM product_stock").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_eshop_gets_an_event_at_the_end_of_a_sync(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.webhook("sync_finished").await;
    world.products(2).await;
    world.sync(Stocks, [row(0, 1), row(7, 1)]).await;
    world.drain().await;
    let events =
        "SELECT count(*) FROM event WHERE type = 'sync_finished' AND data->'fields'->>'state' = 'succeeded'
                AND data->'fields'->'progress'->>'failed' = '1' AND data->>'kind' = 'stock.sync'
                AND data->'fields'->>'outcome' = 'partial'";
    assert_eq!(world.count(events).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn invalid_rows_are_refused_one_by_one(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(3).await;
    world.execute("UPDATE product SET type = 'virtual' WHERE product_sku = 'P1'").await;
    let rows = [
        row(0, 1),
        row(1, 1),
        row(9, 1),
        "no json".to_owned(),
        "[1]".to_owned(),
        r#"{"quantity":1}"#.to_owned(),
        r#"{"productSku":"P2","quantity":1.5,"colour":"red"}"#.to_owned(),
        row(2, 1_000_000_001),
    ];
    let job = world.sync(Stocks, rows).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 7]));
    assert_eq!(
        world.errors(job).await,
        [
            "1 P1 not_stocked",
            "2 P9 unknown_product",
            "3 malformed_row",
            "4 malformed_row",
            "5 required",
            "6 P2 invalid_data",
            "7 P2 duplicate",
        ]
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_second_of_two_rows_with_one_sku_is_refused_at_any_position(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.products(2 * ROWS_PER_CHUNK).await;
    let mut rows: Vec<String> = (0..2 * ROWS_PER_CHUNK).map(|n| row(n, 1)).collect();
    rows.insert(10, row(3, 2)); // in the same chunk
    rows.push(row(4, 2)); // in another one
    let job = world.sync(Stocks, rows).await;
    world.drain().await;
    assert_eq!(
        world.outcome(job).await,
        ("succeeded".to_owned(), [i64::try_from(2 * ROWS_PER_CHUNK).unwrap(), 0, 2])
    );
    assert_eq!(world.errors(job).await, ["10 P3 duplicate", "2001 P4 duplicate"]);
    // each names the line of the first: rows of a test have every second one, from 3
    let named = "SELECT count(*) FROM job_item_error
                 WHERE (index, message) IN ((10, 'the row in line 9 has the same productSku'), (2001, 'the row in line 11 has the same productSku'))";
    assert_eq!(world.count(named).await, 2);
    assert_eq!(world.count("SELECT count(*) FROM product_stock WHERE quantity <> 1").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_connector_of_one_eshop_counts_only_products_of_that_eshop(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    world.products(2).await;
    world
        .execute(
            "DELETE FROM product_eshop e USING product p WHERE p.id = e.product_id AND p.product_sku = 'P1'",
        )
        .await;
    let everywhere = world.context.caller.scope.clone();
    world.context.caller.scope =
        Scope::Eshop { organisation: world.tenant.organisation, eshop: world.tenant.eshop };
    let job = world.sync(Stocks, [row(0, 1), row(1, 1)]).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 1]));
    assert_eq!(world.errors(job).await, ["1 P1 unknown_product"]);
    // the organisation's own syncs may count every product
    world.context.caller.scope = everywhere;
    let job = world.sync(Stocks, [row(0, 1), row(1, 1)]).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 1, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn one_row_that_only_the_database_refuses_fails_alone(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(1_000).await;
    world
        .execute("ALTER TABLE product_stock ADD CONSTRAINT nobody_has_thirteen CHECK (quantity <> 13)")
        .await;
    let job = world.sync(Stocks, (0..1_000).map(|n| row(n, if n == 617 { 13 } else { 1 }))).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [999, 0, 1]));
    assert_eq!(world.errors(job).await, ["617 P617 refused"]);
    let message =
        "SELECT count(*) FROM job_item_error WHERE message = 'the database refused it: nobody has thirteen'";
    assert_eq!(world.count(message).await, 1);
}
