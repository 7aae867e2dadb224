//! `incoming` and `quantity` always match the advices and the movements.

use longshore_domain::job::mark::Beside;
use longshore_domain::warehouse::stock::sync::{self, Place, StockRow};
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, PATH, World, path, receipt};
use crate::support::strangers;

const PRODUCTS: usize = 4;
const ROUNDS: usize = 12;
/// Concurrent operations of a round.
const AT_ONCE: usize = 6;

#[derive(Clone, Debug)]
enum Operation {
    Announce(Vec<(usize, i64)>),
    Receive { advice: usize, items: Vec<(usize, i64)>, close: bool },
    Cancel { advice: usize },
    Count(Vec<(usize, i32)>),
}

fn operation() -> impl Strategy<Value = Operation> {
    let goods = prop::collection::vec((0..PRODUCTS, 1_i64..20), 1..6);
    prop_oneof![
        3 => goods.clone().prop_map(Operation::Announce),
        4 => (any::<usize>(), prop::collection::btree_map(0..6_usize, 1_i64..25, 0..4), prop::bool::weighted(0.2))
            .prop_map(|(advice, items, close)| Operation::Receive { advice, items: items.into_iter().collect(), close }),
        1 => any::<usize>().prop_map(|advice| Operation::Cancel { advice }),
        2 => prop::collection::btree_map(0..PRODUCTS, 0..50, 1..4)
            .prop_map(|counts| Operation::Count(counts.into_iter().collect())),
    ]
}

#[tokio::test]
async fn stocks_match_advices_and_movements_after_any_concurrent_operations() {
    let world = World::new(&strangers().await).await;
    let mut products = Vec::new();
    for number in 0..PRODUCTS {
        products.push(world.add(&format!("P{number}"), json!({})).await);
    }
    let mut runner = TestRunner::new(Config::default());
    let mut advices = Vec::new();
    let mut executed = 0;
    for round in 0..ROUNDS {
        let operations: Vec<Operation> =
            (0..AT_ONCE).map(|_| operation().new_tree(&mut runner).unwrap().current()).collect();
        let calls = operations.iter().enumerate().map(|(number, operation)| {
            let (world, products, advices) = (&world, &products, &advices);
            async move { execute(world, products, advices, &format!("{round}-{number}"), operation).await }
        });
        let outcomes = futures::future::join_all(calls).await;
        for (operation, (status, made)) in operations.iter().zip(outcomes) {
            // an advice may have ended meanwhile, or have fewer items; any other failure is a bug
            assert!(matches!(status, 200 | 201 | 400 | 409), "{status} {operation:?}");
            executed += usize::from(status < 300);
            advices.extend(made);
        }
        assert_eq!(world.contradictions().await, 0, "after {operations:?}");
    }
    assert!(executed > ROUNDS, "hardly anything happened: {executed}");
}

async fn execute(
    world: &World,
    products: &[String],
    advices: &[serde_json::Value],
    name: &str,
    operation: &Operation,
) -> (u16, Option<serde_json::Value>) {
    let api = &world.api;
    match operation {
        Operation::Announce(items) => {
            let items: Vec<_> = items.iter().map(|(product, n)| (products[*product].as_str(), *n)).collect();
            let reply = api.post(&api.user, PATH, world.advice(name, &items)).await;
            (reply.status.as_u16(), (reply.status == 201).then(|| reply.json()))
        }
        Operation::Receive { .. } | Operation::Cancel { .. } if advices.is_empty() => (409, None),
        Operation::Receive { advice, items, close } => {
            let advice = &advices[advice % advices.len()];
            let known = advice["items"].as_array().unwrap().len();
            let items: Vec<_> = items.iter().copied().filter(|(position, _)| *position < known).collect();
            let reply = api.put(&api.user, &path(advice, "receive"), receipt(advice, &items, *close)).await;
            (reply.status.as_u16(), None)
        }
        Operation::Cancel { advice } => {
            (world.cancel(&advices[advice % advices.len()]).await.status.as_u16(), None)
        }
        Operation::Count(counts) => {
            let rows: Vec<_> = counts
                .iter()
                .map(|(product, quantity)| StockRow {
                    product_sku: format!("P{product}"),
                    quantity: *quantity,
                })
                .collect();
            let tenant = &api.tenant;
            let place =
                Place { organisation: tenant.organisation, warehouse: tenant.warehouse, wms: tenant.wms };
            let mut change = Change::begin(&api.services).await.unwrap();
            let beside = Beside::alone(tenant.organisation, 0);
            match sync::apply(&mut change, &Origin::command_line(), place, None, beside, &rows).await {
                Ok(_) => change.commit().await.map_or((409, None), |()| (200, None)),
                // a job that lost a race is retried
                Err(error) if longshore_kernel::sqlstate::is_contention(&error) => (409, None),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_count_of_a_stock_that_appears_meanwhile_moves_the_difference(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let mug = world.add("P0", json!({})).await;
    // a stock that does not exist when the count reads, but does when it writes
    let mut other = world.owner.begin().await.unwrap();
    sqlx::query(
        "WITH stock AS (
             INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
             SELECT uuid_v7(), $1, $2::uuid, $3, $4, 5 RETURNING *
         )
         INSERT INTO stock_movement (id, organisation_id, product_id, warehouse_id, wms_id, kind, quantity, incoming,
                                     actor_type, actor_name)
         SELECT uuid_v7(), organisation_id, product_id, warehouse_id, wms_id, 'counted', quantity, 0, 'test', 'test'
         FROM stock",
    )
    .bind(world.api.tenant.organisation)
    .bind(&mug)
    .bind(world.api.tenant.warehouse)
    .bind(world.api.tenant.wms)
    .execute(&mut *other)
    .await
    .unwrap();
    let count = Operation::Count(vec![(0, 8)]);
    let counting = execute(&world, &[], &[], "", &count);
    let letting = async {
        world.blocked(1).await;
        other.commit().await.unwrap();
    };
    let ((status, _), ()) = tokio::join!(counting, letting);
    assert_eq!((status, world.stock(&mug).await, world.contradictions().await), (200, [8, 0], 0));
}

#[tokio::test]
async fn a_product_of_an_open_advice_stays_physical_even_without_stock() {
    let world = World::new(&strangers().await).await;
    let mug = world.add("P0", json!({})).await;
    let advice = world.announce("PO-1", &[(&mug, 5)]).await;
    world.receive(&advice, &[(0, 5)], false).await.expect(200);
    assert_eq!(execute(&world, &[], &[], "", &Operation::Count(vec![(0, 0)])).await.0, 200);
    assert_eq!(world.stock(&mug).await, [0, 0]);
    // more goods may arrive
    let reply = world.put(&mug, json!({"type": "virtual"})).await.expect(400);
    assert_eq!(reply.violations(), ["type in_stock"]);
    world.receive(&advice, &[], true).await.expect(200);
    world.put(&mug, json!({"type": "virtual"})).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn movements_are_append_only_for_every_role(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let mug = world.add("mug", json!({})).await;
    world.announce("PO-1", &[(&mug, 1)]).await;
    let service: &PgPool = &world.api.services.db.main;
    for pool in [service, &world.owner] {
        for statement in [
            "UPDATE stock_movement SET incoming = 2",
            "DELETE FROM stock_movement",
            "TRUNCATE stock_movement",
        ] {
            let error = sqlx::query(statement).execute(pool).await.unwrap_err();
            let code = error.as_database_error().and_then(|e| e.code().map(std::borrow::Cow::into_owned));
            assert_eq!(code.as_deref(), Some("42501"), "{statement}: {error}");
        }
    }
    assert_eq!(world.count("SELECT sum(incoming) FROM stock_movement").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn available_is_the_quantity_minus_booked_pieces(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let mug = world.add("mug", json!({})).await;
    let advice = world.announce("PO-1", &[(&mug, 10)]).await;
    world.receive(&advice, &[(0, 7)], false).await.expect(200);
    world.execute("UPDATE product_stock SET held = 2, missing = 9").await;
    let body = json!({"criteria": {"available": {"eq": 5}, "incoming": {"gt": 0}}});
    let listed = world.api.post(&world.api.user, "/api/product-stock/list", body).await.expect(200).json();
    assert_eq!(listed["paging"]["total"], 1);
    let stock = &listed["results"][0];
    let id = stock["id"].as_str().unwrap();
    let alone =
        world.api.get(&world.api.viewer, &format!("/api/product-stock/{id}")).await.expect(200).json();
    assert_eq!(*stock, alone);
    for (field, expected) in
        [("quantity", 7), ("booked", 2), ("available", 5), ("missing", 9), ("required", 4), ("incoming", 3)]
    {
        assert_eq!(stock[field], expected, "{field}");
    }
    assert_eq!(stock["product"], mug);
}
