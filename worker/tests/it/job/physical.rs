//! Only physical products have stock, even if a product is counted while its type changes.

use longshore_domain::account::eshop::{self, NewEshop};
use longshore_domain::catalog::product::rules::read_sync_row;
use longshore_domain::catalog::product::sync::{self as products, Sync};
use longshore_domain::catalog::product::together::Batcher;
use longshore_domain::catalog::product::update::update;
use longshore_domain::job::mark::Beside;
use longshore_domain::warehouse::stock::sync::{self as stocks, Place, StockRow};
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::ProductId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::problem::Problem;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

/// A product that was never counted, and one whose stock is zero by now.
const SKUS: [&str; 2] = ["P0", "P1"];

async fn two_products(options: &PgConnectOptions) -> (World, Vec<ProductId>) {
    let world = World::new(options).await;
    let ids = world.products(SKUS.len()).await;
    for quantity in [1, 0] {
        let mut change = Change::begin(&world.services).await.unwrap();
        assert_eq!(count(&world, &mut change, "P1", quantity).await, Vec::<&str>::new());
        change.commit().await.unwrap();
    }
    (world, ids)
}

/// Counts a product; returns why it was refused.
async fn count(world: &World, change: &mut Change<'_>, sku: &str, quantity: i32) -> Vec<&'static str> {
    let tenant = &world.tenant;
    let place = Place { organisation: tenant.organisation, warehouse: tenant.warehouse, wms: tenant.wms };
    let row = StockRow { product_sku: sku.to_owned(), quantity };
    let beside = Beside::alone(tenant.organisation, 0);
    let applied = stocks::apply(change, &Origin::command_line(), place, None, beside, &[row]).await.unwrap();
    applied.refused.into_iter().map(|(_, refusal)| refusal.violation().code).collect()
}

/// Makes a product virtual like a row of a sync; returns why it was refused.
async fn sync(world: &World, change: &mut Change<'_>, sku: &str) -> Vec<&'static str> {
    let row = read_sync_row(json!({"productSku": sku, "type": "virtual"})).unwrap();
    let sync = Sync {
        origin: &Origin::command_line(),
        organisation: world.tenant.organisation,
        bound: false,
        eshop: world.tenant.eshop,
        acceptance: i64::MAX,
        beside: Beside::alone(world.tenant.organisation, i64::MAX),
    };
    let applied = products::apply(change, sync, &[row]).await.unwrap();
    applied.refused.into_iter().flat_map(|(_, violations)| violations).map(|v| v.code).collect()
}

/// The same with an update; returns why it was refused.
async fn turn(world: &World, id: ProductId, members: Value) -> Vec<&'static str> {
    let mut body = json!({"type": "virtual"});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    match update(&world.services, &Batcher::default(), &world.context, id.get(), body, |_| Ok(())).await {
        Ok(_) => Vec::new(),
        Err(problem) => codes(&problem),
    }
}

fn codes(problem: &Problem) -> Vec<&'static str> {
    problem.violations().iter().map(|violation| violation.code).collect()
}

/// The number of products with a stock that are not physical.
async fn impossible(world: &World) -> i64 {
    let stocked = "SELECT count(*) FROM product_stock s JOIN product p ON p.id = s.product_id
                   WHERE s.quantity > 0 AND p.type <> 'physical'";
    world.count(stocked).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_that_is_being_counted_stays_physical(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, ids) = two_products(&options).await;
    for (sku, id) in SKUS.into_iter().zip(ids) {
        let mut counting = Change::begin(&world.services).await.unwrap();
        assert_eq!(count(&world, &mut counting, sku, 7).await, Vec::<&str>::new());
        let commit = async {
            world.until_locked().await;
            counting.commit().await.unwrap();
        };
        let (refused, ()) = tokio::join!(turn(&world, id, json!({})), commit);
        assert_eq!(refused, ["in_stock"], "{sku}");
    }
    assert_eq!(impossible(&world).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_that_is_being_counted_stays_physical_in_a_sync_too(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, _) = two_products(&options).await;
    for sku in SKUS {
        let mut counting = Change::begin(&world.services).await.unwrap();
        assert_eq!(count(&world, &mut counting, sku, 7).await, Vec::<&str>::new());
        let commit = async {
            world.until_locked().await;
            counting.commit().await.unwrap();
        };
        let mut turning = Change::begin(&world.services).await.unwrap();
        let (refused, ()) = tokio::join!(sync(&world, &mut turning, sku), commit);
        turning.commit().await.unwrap();
        assert_eq!(refused, ["in_stock"], "{sku}");
    }
    assert_eq!(impossible(&world).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_that_is_being_made_virtual_is_not_counted(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, ids) = two_products(&options).await;
    let second = NewEshop {
        organisation: world.tenant.organisation,
        name: "Second shop".to_owned(),
        warehouses: vec![world.tenant.warehouse],
    };
    let second = eshop::create(&world.services, &Origin::command_line(), &second).await.unwrap();
    for (sku, id) in SKUS.into_iter().zip(ids) {
        // the update waits in its last statement: the product is written, but not committed
        let mut gate = world.owner.begin().await.unwrap();
        sqlx::query("SELECT FROM eshop WHERE id = $1 FOR UPDATE")
            .bind(second)
            .execute(&mut *gate)
            .await
            .unwrap();
        let turning = turn(&world, id, json!({"eshops": [world.tenant.eshop, second]}));
        let counting = async {
            world.until_locked().await;
            let mut change = Change::begin(&world.services).await.unwrap();
            let open = async {
                world.until_blocked(2).await;
                gate.rollback().await.unwrap();
            };
            let (refused, ()) = tokio::join!(count(&world, &mut change, sku, 7), open);
            change.commit().await.unwrap();
            refused
        };
        let (turned, refused) = tokio::join!(turning, counting);
        assert_eq!((turned, refused), (Vec::new(), vec!["not_stocked"]), "{sku}");
    }
    assert_eq!(impossible(&world).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_that_a_sync_is_making_virtual_is_not_counted(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, _) = two_products(&options).await;
    for sku in SKUS {
        let mut turning = Change::begin(&world.services).await.unwrap();
        assert_eq!(sync(&world, &mut turning, sku).await, Vec::<&str>::new());
        let mut change = Change::begin(&world.services).await.unwrap();
        let commit = async {
            world.until_locked().await;
            turning.commit().await.unwrap();
        };
        let (refused, ()) = tokio::join!(count(&world, &mut change, sku, 7), commit);
        change.commit().await.unwrap();
        assert_eq!(refused, ["not_stocked"], "{sku}");
    }
    assert_eq!(impossible(&world).await, 0);
}
