//! Changes other than those of a stock: of the products of an e-shop, of a product, and of the default wms of a warehouse.

use longshore_domain::partner::clock;
use longshore_domain::partner::send_out::{Extent, changes};
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::baselinker::{BaseLinker, WAREHOUSE};
use longshore_testkit::world::Tenant;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::lost::lose_answers;
use super::{AGAIN, UPDATE, accept, count_stock, count_stock_quietly, dispatch, last_job, sent, start};
use crate::job::support::World;
use crate::partner::baselinker::store_setting;
use crate::partner::support::DUE;

/// The product leaves the e-shop.
const DETACH: &str = "DELETE FROM product_eshop";

/// The product comes to the e-shop.
const ATTACH: &str = "INSERT INTO product_eshop (product_id, eshop_id)
    SELECT p.id, s.eshop_id FROM product p JOIN integration_setting s ON s.organisation_id = p.organisation_id";

/// SKUs of which the partner is to have none.
const WITHDRAWN: &str = "SELECT count(*) FROM stock_withdrawn";

/// A partner that took seven pieces of the only product.
async fn start_with_seven(options: &PgConnectOptions) -> (World, BaseLinker) {
    let (world, partner) = Box::pin(start(options, 1)).await;
    partner.put(2_000, "Q0", "Another", json!({}));
    count_stock(&world, &[(0, 7)]).await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(partner.stock(1_000), Some(7));
    world.execute(AGAIN).await;
    (world, partner)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_that_leaves_the_e_shop_is_sent_as_zero_once_and_its_quantity_when_it_returns(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_seven(&options).await;
    world.execute(DETACH).await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(sent(&partner), json!({"1000": {(WAREHOUSE): 0}}));
    assert_eq!(world.outcome(last_job(&world).await).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!((partner.stock(1_000), world.count(WITHDRAWN).await), (Some(0), 0));
    // from now on, the stock at the partner is not ours
    partner.set_stock(1_000, 50);
    let comparison = accept(&world, Extent::Comparison).await;
    world.drain().await;
    assert_eq!(world.outcome(comparison).await, ("succeeded".to_owned(), [0, 0, 0]));
    assert_eq!(partner.stock(1_000), Some(50));
    world.execute(AGAIN).await;
    world.execute(ATTACH).await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(partner.stock(1_000), Some(7));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn zero_is_sent_again_if_its_answer_was_lost(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, partner) = start_with_seven(&options).await;
    lose_answers(&partner);
    world.execute(DETACH).await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(world.count(WITHDRAWN).await, 1);
    // as if the partner had not taken it
    partner.set_stock(1_000, 7);
    world.execute(DUE).await;
    world.drain().await;
    assert_eq!((partner.stock(1_000), world.count(WITHDRAWN).await), (Some(0), 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_that_leaves_while_nothing_is_sent_is_zero_when_sending_resumes(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_seven(&options).await;
    store_setting(&world, partner.url(), json!({"stockSync": {"enabled": false}})).await;
    world.execute(DETACH).await;
    assert_eq!(dispatch(&world).await, 0);
    store_setting(&world, partner.url(), json!({})).await;
    accept(&world, Extent::Everything).await;
    world.drain().await;
    assert_eq!((partner.stock(1_000), world.count(WITHDRAWN).await), (Some(0), 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_that_was_never_the_e_shop_s_keeps_its_stock_at_the_partner(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_seven(&options).await;
    partner.set_stock(2_000, 50);
    // a product of the organisation has the SKU, but the e-shop never sold it
    world
        .execute(
            "UPDATE product SET product_sku = 'Q0'; DELETE FROM product_eshop; DELETE FROM stock_withdrawn",
        )
        .await;
    accept(&world, Extent::Comparison).await;
    world.drain().await;
    assert_eq!(partner.stock(2_000), Some(50));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_virtual_product_that_leaves_keeps_its_stock_at_the_partner(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_seven(&options).await;
    partner.set_stock(2_000, 50);
    world
        .execute(
            "INSERT INTO product SELECT (p).* FROM (
                 SELECT jsonb_populate_record(p, '{\"id\": \"00000000-0000-7000-8000-000000000001\", \"product_sku\": \"Q0\",
                                                   \"internal_sku\": \"Q0\", \"type\": \"virtual\"}') AS p FROM product p) AS other;
             INSERT INTO product_eshop (product_id, eshop_id)
                 SELECT p.id, e.eshop_id FROM product p, product_eshop e WHERE p.product_sku = 'Q0'",
        )
        .await;
    accept(&world, Extent::Comparison).await;
    world.drain().await;
    world
        .execute("DELETE FROM product_eshop USING product p WHERE p.id = product_id AND p.product_sku = 'Q0'")
        .await;
    assert_eq!((partner.stock(2_000), world.count(WITHDRAWN).await), (Some(50), 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_refused_zero_is_sent_by_the_schedule_for_a_week(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, partner) = start_with_seven(&options).await;
    partner.warn_of(1_000, "locked by an administrator");
    world.execute(DETACH).await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(world.errors(last_job(&world).await).await, ["0 P0 refused_by_partner"]);
    world.execute(AGAIN).await;
    assert_eq!(dispatch(&world).await, 0);
    let everything = async || {
        accept(&world, Extent::Everything).await;
        world.drain().await;
        (partner.calls(UPDATE), world.count(WITHDRAWN).await)
    };
    assert_eq!(everything().await, (3, 1));
    world.execute("UPDATE stock_withdrawn SET withdrawn_at = now() - interval '8 days'").await;
    assert_eq!(everything().await, (4, 0));
    assert_eq!(everything().await, (4, 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_with_another_sku_is_sent_as_the_item_with_that_sku(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_seven(&options).await;
    world.execute("UPDATE product SET product_sku = 'Q0'").await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!([1_000, 2_000].map(|id| partner.stock(id)), [Some(0), Some(7)]);
    assert_eq!(world.count(WITHDRAWN).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_that_is_no_longer_physical_is_sent_as_zero(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, partner) = start_with_seven(&options).await;
    // before a job has sent the change of the stock
    count_stock_quietly(&world, 0).await;
    world.execute("UPDATE product SET type = 'virtual'").await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(partner.stock(1_000), Some(0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn another_default_wms_of_a_warehouse_sends_its_quantities(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_seven(&options).await;
    let change = "WITH made AS (
            INSERT INTO wms (id, organisation_id, name, distribution_center, store_key, internal_id)
            SELECT uuid_v7(), organisation_id, 'Empty', uuid_v7(), 'empty', '2' FROM warehouse RETURNING id
        ), linked AS (
            INSERT INTO warehouse_wms (warehouse_id, wms_id) SELECT w.id, made.id FROM warehouse w, made
        )
        UPDATE warehouse SET default_wms_id = made.id FROM made";
    // the setting maps a wms: its quantities stay
    world.execute(change).await;
    assert_eq!(dispatch(&world).await, 0);
    let warehouses = json!([{"warehouseId": WAREHOUSE, "warehouse": world.tenant.warehouse}]);
    store_setting(&world, partner.url(), json!({"warehouses": warehouses})).await;
    let default = sqlx::query("UPDATE warehouse SET default_wms_id = $1").bind(world.tenant.wms);
    default.execute(&world.owner).await.unwrap();
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(partner.stock(1_000), Some(7));
    world.execute("UPDATE warehouse SET default_wms_id = (SELECT id FROM wms WHERE name = 'Empty')").await;
    assert_eq!(dispatch(&world).await, 1);
    assert_eq!(partner.stock(1_000), Some(0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_changed_setting_is_sent_by_the_schedule_although_changes_are_being_sent(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, partner) = start_with_seven(&options).await;
    count_stock_quietly(&world, 11).await;
    assert_eq!(changes::dispatch(&world.services).await.unwrap(), 1);
    store_setting(&world, partner.url(), json!({"stockSync": {"enabled": true, "reserve": 2}})).await;
    assert_eq!(clock::start_due(&world.services).await.unwrap(), 1);
    world.drain().await;
    assert_eq!(partner.stock(1_000), Some(9));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn e_shops_whose_stocks_always_change_delay_no_other(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, _partner) = start(&options, 1).await;
    world.execute("DELETE FROM eshop_stock_change").await;
    // more e-shops than one look accepts jobs for
    world
        .execute(
            "INSERT INTO eshop (id, organisation_id, name, active, wait_before_processing, edit_before_processing)
             SELECT uuid_v7(), id, 'Shop ' || n, true, false, false FROM organisation, generate_series(1, 120) AS n",
        )
        .await;
    let other = Tenant::create(&world.services, "Other").await.unwrap();
    world
        .execute(
            "INSERT INTO integration_setting (id, eshop_id, organisation_id, integration_type, active, credentials,
                 inventories, product_sync_enabled, product_sync_interval, stock_sync_enabled, stock_sync_interval,
                 stock_reserve)
             SELECT uuid_v7(), id, organisation_id, 'baselinker', true, '', '{}', false, 60, true, 60, 0 FROM eshop
             ON CONFLICT DO NOTHING;
             INSERT INTO stock_due (eshop_id, product_id) SELECT e.id, p.id FROM eshop e, product p",
        )
        .await;
    assert_eq!(changes::dispatch(&world.services).await.unwrap(), 100);
    let of_other =
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM job WHERE eshop_id = $1").bind(other.eshop);
    assert_eq!(of_other.fetch_one(&world.owner).await.unwrap(), 1, "organisations take turns");
    // the jobs end while their e-shops have new changes
    world.execute("DELETE FROM job").await;
    world.execute(AGAIN).await;
    assert_eq!(changes::dispatch(&world.services).await.unwrap(), 100);
    assert_eq!(world.count("SELECT count(*) FROM stock_send_out").await, 122);
}
