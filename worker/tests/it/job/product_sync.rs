use longshore_domain::job::control;
use longshore_domain::job::item_error;
use longshore_domain::job::kind::JobKind::ProductDeactivate;
use longshore_domain::job::payload::ROWS_PER_CHUNK;
use longshore_domain::list::Form;
use longshore_domain::partner::push::Push::Products;
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::quota::Quotas;
use longshore_testkit::services;
use longshore_worker::jobs::chunk::run;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

fn row(product: usize, name: &str) -> String {
    format!(r#"{{"productSku":"P{product}","name":"{name}"}}"#)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn new_products_are_created_with_the_defaults_and_sold_in_the_eshop(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.webhook("product_change").await;
    let job = world.sync(Products, [r#"{"productSku":"A 1 ","name":"Mug","weight":300}"#]).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
    let made = "SELECT count(*) FROM product p JOIN product_eshop e ON e.product_id = p.id
                WHERE product_sku = 'A 1 ' AND internal_sku = 'A 1 ' AND active AND type = 'physical' AND weight = 300
                  AND packaging_type = 'A' AND NOT imei_check_required AND NOT work_around_lot";
    assert_eq!(world.count(made).await, 1);
    let events =
        "SELECT count(*) FROM event WHERE data->'fields'->>'name' = 'Mug' AND data->>'productSku' = 'A 1 '";
    assert_eq!(world.count(events).await, 1);
    let audited =
        "SELECT count(*) FROM audit WHERE action = 'product.sync' AND changes->'name' = '[null, \"Mug\"]'";
    assert_eq!(world.count(audited).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn new_products_above_the_quota_are_refused_and_all_others_are_accepted(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut services = services::for_test(&options).unwrap();
    let mut settings = services::quota_settings().unwrap();
    settings.quota_products = 3;
    services.quotas = Quotas::new(settings, services.metrics.clone());
    let world = World::over(services, &options).await;
    let job = world.sync(Products, (0..5).map(|n| row(n, "Mug"))).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 2]));
    let refused = "SELECT count(*) FROM job_item_error
                   WHERE code = 'quota_reached' AND message LIKE '%reached its quota of products: 3'";
    assert_eq!(world.count(refused).await, 2);
    // existing products are changed as usual
    let job = world.sync(Products, (0..5).map(|n| row(n, "Jug"))).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 2]));
    assert_eq!(world.count("SELECT count(*) FROM product WHERE name = 'Jug'").await, 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_refused_row_is_reported_with_its_line_even_after_a_retry(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let refused = [0, 1, 999, 1_000, 1_001];
    let rows = (0..1_002).map(|n| if refused.contains(&n) { row(n, "") } else { row(n, "Mug") });
    let job = world.sync(Products, rows).await;
    world.drain().await;
    let lines: Vec<_> = refused.iter().map(|n| Some(3 + 2 * i64::try_from(*n).unwrap())).collect();
    assert_eq!(world.error_lines(job).await, lines);
    control::retry(&world.services, &world.context, job).await.unwrap();
    world.drain().await;
    assert_eq!(world.error_lines(job).await, lines);
    let answer =
        item_error::list(&world.services, world.context.scope(), job, None, Form::Json).await.unwrap();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let last = &answer["results"][4];
    assert_eq!(last["index"], 1_001);
    assert_eq!(last["line"], 2_005);
    assert_eq!(last["key"], "P1001");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_whole_number_equals_the_integer_that_is_stored(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let row = |weight: &str| format!(r#"{{"productSku":"P1","name":"Mug","weight":{weight}}}"#);
    world.sync(Products, [row("225.0")]).await;
    world.drain().await;
    assert_eq!(world.count("SELECT weight::bigint FROM product").await, 225);
    for weight in ["225", "2.25e2", "225.000"] {
        let job = world.sync(Products, [row(weight)]).await;
        world.drain().await;
        assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [0, 1, 0]), "{weight}");
    }
    let job = world.sync(Products, [row("225.5")]).await;
    world.drain().await;
    assert_eq!(world.errors(job).await, ["0 P1 wrong_type"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn only_differences_are_written_and_sent(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.sync(Products, [row(0, "Mug"), row(1, "Cup"), row(2, "Jug")]).await;
    world.drain().await;
    world.webhook("product_change").await;
    let job = world.sync(Products, [row(0, "Mug"), row(1, "Big cup"), row(2, "Jug")]).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 2, 0]));
    assert_eq!(world.count("SELECT count(*) FROM delivery").await, 1);
    let audited = "SELECT count(*) FROM audit WHERE changes = '{\"name\": [\"Cup\", \"Big cup\"]}'";
    assert_eq!(world.count(audited).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_sync_reads_only_its_own_products_even_if_the_statistics_say_that_organisations_are_small(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.products(2_000).await;
    // there are no table statistics yet
    let job = world.sync(Products, (0..100).map(|n| row(n, "Cup"))).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [100, 0, 0]));
    let small = "INSERT INTO product (id, organisation_id, product_sku, internal_sku, name, reference_numbers,
                     packaging_type, imei_check_required, work_around_sn_in, work_around_ean_sticker,
                     work_around_warranty_inf, work_around_lot, active, active_acceptance, type)
                 SELECT uuid_v7(), gen_random_uuid(), 'S', 'S', 'Small', '{}', 'A', false, false, false, false, false, true,
                        0, 'physical'
                 FROM generate_series(1, 500)";
    world.without_references(small).await;
    world.execute("ANALYZE product").await;
    let job = world.sync(Products, (0..100).map(|n| row(n, "Mug"))).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [100, 0, 0]));
    let by_key = "SELECT (idx_scan >= 200)::int::bigint FROM pg_stat_user_indexes
                  WHERE indexrelname = 'product_sku_is_unique_in_the_organisation'";
    world.until(by_key, 1).await;
    let by_organisation = "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes
                           WHERE indexrelname IN ('product_by_change', 'product_by_creation')";
    assert_eq!(world.count(by_organisation).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_of_another_eshop_is_attached(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(1).await;
    world.execute("DELETE FROM product_eshop").await;
    world.webhook("product_change").await;
    let job = world.sync(Products, [r#"{"productSku":"P0","weight":7}"#]).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!(world.count("SELECT count(*) FROM product_eshop").await, 1);
    // the e-shop has not heard of the product before: the event has what it had, and what it has not
    let all = "SELECT count(*) FROM event
               WHERE data->'changedFields' = '[\"eshops\", \"weight\"]' AND data->'fields'->>'weight' = '7'
                 AND data->'fields'->>'productSku' = 'P0' AND jsonb_array_length(data->'fields'->'eshops') = 1
                 AND data->'fields'->'description' = 'null' AND data->'fields' ?& '{active,images,services,name}'";
    assert_eq!(world.count(all).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn invalid_rows_are_refused_one_by_one(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let rows = [
        row(0, "Mug"),
        r#"{"productSku":"NAMELESS"}"#.to_owned(),
        r#"{"name":"No SKU"}"#.to_owned(),
        "{oops".to_owned(),
        row(4, "x"),
        r#"{"productSku":"P5","name":"Box","packagingType":"Z"}"#.to_owned(),
        r#"{"productSku":"P6","name":"Set","type":"bundle"}"#.to_owned(),
        r#"{"productSku":"P7","name":"Pen","colour":"red"}"#.to_owned(),
        r#"{"productSku":"P8","name":"U+0000 \u0000"}"#.to_owned(),
        row(9, "Last"),
        r#"{"productSku":"P10","name":"Pot","name":"Pan"}"#.to_owned(),
        // little text, and a hundred times as much memory
        format!(r#"{{"productSku":"P11","name":"Jug","x":[{}]}}"#, vec![r#"{"":0}"#; 15_000].join(",")),
    ];
    let job = world.sync(Products, rows).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 10]));
    assert_eq!(
        world.errors(job).await,
        [
            "1 NAMELESS required",
            "2 required",
            "3 malformed_row",
            "4 P4 invalid_length",
            "5 P5 unknown_reference",
            "6 P6 required",
            "7 P7 unknown_field",
            "8 P8 invalid_character",
            "10 repeated_key",
            "11 malformed_row",
        ]
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_bundle_gets_its_children_and_changes_them(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let parts = world.products(2).await;
    let bundle = |part: usize, quantity: i32| {
        let id = parts[part];
        format!(
            r#"{{"productSku":"SET","name":"Set","type":"bundle","childrenProducts":[{{"productId":"{id}","quantity":{quantity}}}]}}"#
        )
    };
    world.sync(Products, [bundle(0, 2)]).await;
    world.drain().await;
    assert_eq!(world.count("SELECT sum(quantity)::bigint FROM product_child").await, 2);
    let same = world.sync(Products, [bundle(0, 2)]).await;
    let other = world.sync(Products, [bundle(1, 5)]).await;
    world.drain().await;
    assert_eq!(world.outcome(same).await, ("succeeded".to_owned(), [0, 1, 0]));
    assert_eq!(world.outcome(other).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!(world.count("SELECT sum(quantity)::bigint FROM product_child").await, 5);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_sync_does_not_undo_a_new_sku_that_came_between(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = world.products(1).await;
    let sync = world.sync(Products, [r#"{"productSku":"P0","name":"From the sync"}"#]).await;
    // it has read the product, and waits for its lock
    let mut renaming = world.owner.begin().await.unwrap();
    sqlx::query(
        "UPDATE product SET product_sku = 'RENAMED', name = 'By hand', version = version + 1 WHERE id = $1",
    )
    .bind(ids[0])
    .execute(&mut *renaming)
    .await
    .unwrap();
    let running = tokio::spawn(run(world.worker.clone(), format!("{sync}:0")));
    world.until_locked().await;
    renaming.commit().await.unwrap();
    running.await.unwrap();
    assert_eq!(world.outcome(sync).await, ("succeeded".to_owned(), [1, 0, 0]));
    let found = "SELECT string_agg(product_sku || ': ' || name, ', ' ORDER BY product_sku) FROM product";
    let found: String = sqlx::query_scalar(found).fetch_one(&world.owner).await.unwrap();
    assert_eq!(found, "P0: From the sync, RENAMED: By hand");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_sync_does_not_undo_a_later_switch_of_active(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = world.products(1).await;
    let sync = world.sync(Products, [r#"{"productSku":"P0","name":"New name","active":true}"#]).await;
    let switch = world.switch(ProductDeactivate, &ids).await;
    run(world.worker.clone(), format!("{switch}:0")).await;
    world.drain().await;
    assert_eq!(world.outcome(sync).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!(world.count("SELECT count(*) FROM product WHERE NOT active AND name = 'New name'").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_older_switch_does_not_undo_an_active_that_a_sync_confirmed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = world.products(1).await;
    let older = world.switch(ProductDeactivate, &ids).await;
    let sync = world.sync(Products, [r#"{"productSku":"P0","active":true}"#]).await;
    run(world.worker.clone(), format!("{sync}:0")).await;
    assert_eq!(world.outcome(sync).await, ("succeeded".to_owned(), [0, 1, 0]));
    world.drain().await;
    assert_eq!(world.outcome(older).await, ("succeeded".to_owned(), [0, 1, 0]));
    assert_eq!(world.count("SELECT count(*) FROM product WHERE active").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_cannot_become_a_part_and_stop_being_physical_in_one_chunk(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = world.products(1).await;
    let bundle = format!(
        r#"{{"productSku":"SET","name":"Set","type":"bundle","childrenProducts":[{{"productId":"{}","quantity":1}}]}}"#,
        ids[0]
    );
    let job = world.sync(Products, [r#"{"productSku":"P0","type":"virtual"}"#.to_owned(), bundle]).await;
    world.drain().await;
    assert_eq!(world.errors(job).await, ["1 SET not_allowed"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn chunks_of_one_sync_may_run_in_any_order(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let count = 2 * ROWS_PER_CHUNK + 1;
    let mut rows: Vec<String> = (0..count).map(|n| row(n, "Mug")).collect();
    rows.push(row(0, "Again"));
    let job = world.sync(Products, rows).await;
    for chunk in [2, 0, 1] {
        run(world.worker.clone(), format!("{job}:{chunk}")).await;
    }
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [i64::try_from(count).unwrap(), 0, 1]));
    assert_eq!(world.errors(job).await, [format!("{count} P0 duplicate")]);
    assert_eq!(world.count("SELECT count(*) FROM product WHERE name = 'Again'").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn one_row_that_only_the_database_refuses_fails_alone(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world
        .execute("ALTER TABLE product ADD CONSTRAINT nothing_is_called_macbeth CHECK (name <> 'Macbeth')")
        .await;
    let rows = (0..1_000).map(|n| row(n, if n == 613 { "Macbeth" } else { "Mug" }));
    let job = world.sync(Products, rows).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [999, 0, 1]));
    assert_eq!(world.errors(job).await, ["613 P613 refused"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_catalogue_of_a_real_shop_is_synced_and_its_invalid_rows_are_named(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/online-retail-products.ndjson");
    let Ok(catalogue) = std::fs::read_to_string(path) else {
        println!("SKIPPED: the real catalogue is not at {path}");
        return;
    };
    let world = World::new(&options).await;
    let rows: Vec<String> = catalogue
        .lines()
        .map(|line| {
            let product: serde_json::Value = serde_json::from_str(line).unwrap();
            serde_json::json!({"productSku": product["sku"], "name": product["name"]}).to_string()
        })
        .collect();
    let job = world.sync(Products, &rows).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2_231, 0, 15]));
    let again = world.sync(Products, &rows).await;
    world.drain().await;
    assert_eq!(world.outcome(again).await, ("succeeded".to_owned(), [0, 2_231, 15]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_in_stock_or_announced_stays_physical(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(4).await;
    sqlx::query(
        "INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity, incoming)
         SELECT uuid_v7(), p.organisation_id, p.id, $1, $2, s.quantity, s.incoming
         FROM product p JOIN (VALUES ('P0', 5, 0), ('P1', 0, 7), ('P2', 0, 0), ('P3', 0, 0)) AS s (sku, quantity, incoming)
           ON s.sku = p.product_sku",
    )
    .bind(world.tenant.warehouse)
    .bind(world.tenant.wms)
    .execute(&world.owner)
    .await
    .unwrap();
    // all announced goods of both have arrived and been sold; more of the last may come
    sqlx::query(
        "WITH supplier AS (
             INSERT INTO supplier (id, organisation_id, name, active) VALUES (uuid_v7(), $1, 'Potter', true) RETURNING id
         ), advice AS (
             INSERT INTO stock_advice (id, organisation_id, warehouse_id, wms_id, supplier_id, internal_id, expected_at,
                 status, count_of_items, count_of_sku, sum_of_quantity)
             SELECT uuid_v7(), $1, $2, $3, supplier.id, a.sku, now(), a.status, 1, 1, 5
             FROM supplier, (VALUES ('P2', 'closed'), ('P3', 'receiving')) AS a (sku, status)
             RETURNING id, internal_id
         )
         INSERT INTO stock_advice_item (id, stock_advice_id, position, product_id, quantity, received)
         SELECT uuid_v7(), advice.id, 1, p.id, 5, 5 FROM advice JOIN product p ON p.product_sku = advice.internal_id",
    )
    .bind(world.tenant.organisation)
    .bind(world.tenant.warehouse)
    .bind(world.tenant.wms)
    .execute(&world.owner)
    .await
    .unwrap();
    let rows = (0..4).map(|n| format!(r#"{{"productSku":"P{n}","type":"virtual"}}"#));
    let job = world.sync(Products, rows).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 3]));
    assert_eq!(world.errors(job).await, ["0 P0 in_stock", "1 P1 in_stock", "3 P3 in_stock"]);
    assert_eq!(
        world.count("SELECT count(*) FROM product WHERE type = 'virtual' AND product_sku = 'P2'").await,
        1
    );
}
