//! Concurrent syncs of two e-shops of one organisation: in any order of execution, each field gets the value
//! that was accepted last.

use std::collections::BTreeMap;
use std::time::Duration;

use longshore_domain::job::mark;
use longshore_domain::partner::push::Push::{self, Products, Stocks};
use longshore_kernel::ids::JobId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_worker::jobs::chunk::run;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

const MARKS: &str = "SELECT count(*) FROM sync_mark";
const CASES: usize = 25;

/// Which of the two e-shops, and the values that its rows give to each product.
type Given = (bool, BTreeMap<usize, Map<String, Value>>);

/// The fields of a row: few values, so that many are equal to existing ones.
fn fields() -> impl Strategy<Value = Map<String, Value>> {
    let weight = prop_oneof![Just(Value::Null), (1..3).prop_map(Value::from)];
    let given = (
        prop::option::of(prop::sample::select(vec!["Mug", "Cup"])),
        prop::option::of(weight),
        prop::option::of(any::<bool>()),
        prop::option::of(prop::sample::select(vec!["one", "two"])),
    );
    given.prop_map(|(name, weight, active, description)| {
        let mut fields = Map::new();
        fields.extend(name.map(|name| ("name".to_owned(), json!(name))));
        fields.extend(weight.map(|weight| ("weight".to_owned(), weight)));
        fields.extend(active.map(|active| ("active".to_owned(), json!(active))));
        fields.extend(description.map(|text| ("description".to_owned(), json!(text))));
        fields
    })
}

fn syncs(rows: impl Strategy<Value = Map<String, Value>>) -> impl Strategy<Value = Vec<Given>> {
    prop::collection::vec((any::<bool>(), prop::collection::btree_map(0..4_usize, rows, 1..4)), 2..6)
}

/// Executes the syncs in this order: one of the first e-shop, one of the other, or the next of both at once.
/// Syncs of one e-shop keep their order.
async fn execute(shops: &[&World; 2], push: Push, syncs: &[Given], turns: &[u8]) {
    let mut lines: [Vec<JobId>; 2] = Default::default();
    for (of_sister, rows) in syncs {
        let rows = rows.iter().map(|(product, fields)| {
            let mut row = fields.clone();
            row.insert("productSku".to_owned(), json!(format!("P{product}")));
            Value::Object(row).to_string()
        });
        let shop = usize::from(*of_sister);
        lines[shop].push(shops[shop].sync(push, rows.collect::<Vec<_>>()).await);
    }
    let mut lines = lines.map(Vec::into_iter);
    // the remaining ones run in parallel
    let mut turns = turns.iter();
    while lines.iter().any(|line| line.len() > 0) {
        let [one, other] = &mut lines;
        let (one, other) = match turns.next() {
            Some(0) => (one.next(), None),
            Some(1) => (None, other.next()),
            _ => (one.next(), other.next()),
        };
        let worker = &shops[0].worker;
        let running = [one, other].into_iter().flatten();
        futures::future::join_all(running.map(|job| run(worker.clone(), format!("{job}:0")))).await;
    }
    let open = "SELECT count(*) FROM job WHERE state <> 'succeeded' OR failed > 0";
    assert_eq!(shops[0].count(open).await, 0, "each was executed when it was its turn");
}

/// The expected values, in the order of acceptance.
fn by_acceptance(start: &Map<String, Value>, syncs: &[Given]) -> BTreeMap<usize, Map<String, Value>> {
    let mut products: BTreeMap<_, _> = (0..4).map(|product| (product, start.clone())).collect();
    for (_, rows) in syncs {
        for (product, fields) in rows {
            products.get_mut(product).unwrap().extend(fields.clone());
        }
    }
    products
}

async fn stored(world: &World, sql: &'static str) -> BTreeMap<usize, Map<String, Value>> {
    let rows: Vec<(String, Value)> = sqlx::query_as(sql).fetch_all(&world.owner).await.unwrap();
    let product = |sku: &str| sku.strip_prefix('P').unwrap().parse().unwrap();
    rows.into_iter().map(|(sku, fields)| (product(&sku), fields.as_object().unwrap().clone())).collect()
}

/// Cases of syncs, with the order in which they are executed.
fn cases(rows: impl Strategy<Value = Map<String, Value>>) -> impl Iterator<Item = (Vec<Given>, Vec<u8>)> {
    let strategy = (syncs(rows), prop::collection::vec(0..3_u8, 1..8));
    let mut runner = TestRunner::deterministic();
    (0..CASES).map(move |_| strategy.new_tree(&mut runner).unwrap().current())
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn in_any_order_of_execution_each_field_of_a_product_has_the_value_accepted_last(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let sister = world.sister().await;
    world.products(4).await;
    let start = json!({"name": "Start", "weight": null, "active": true, "description": null});
    let start = start.as_object().unwrap();
    let mut marked = 0;
    for (syncs, turns) in cases(fields()) {
        world
            .execute(
                "UPDATE product SET name = 'Start', weight = NULL, active = true, description = NULL,
                                    active_acceptance = nextval('acceptance')",
            )
            .await;
        execute(&[&world, &sister], Products, &syncs, &turns).await;
        let stored = stored(
            &world,
            "SELECT product_sku, jsonb_build_object('name', name, 'weight', weight, 'active', active,
                                                    'description', description) FROM product",
        )
        .await;
        assert_eq!(stored, by_acceptance(start, &syncs), "{syncs:?} in turns {turns:?}");
        marked += world.count(MARKS).await;
        mark::expire(&world.services.db.main, 1_000).await.unwrap();
        assert_eq!(world.count(MARKS).await, 0, "nothing earlier is left");
    }
    assert!(marked > 0, "some of them ran before earlier ones");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn in_any_order_of_execution_each_stock_has_the_quantity_accepted_last(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let sister = world.sister().await;
    world.products(4).await;
    let counts = (0..3).prop_map(|quantity| Map::from_iter([("quantity".to_owned(), json!(quantity))]));
    for (syncs, turns) in cases(counts) {
        // the first two products have a stock before, the others have none
        world.execute("DELETE FROM product_stock").await;
        world
            .sync(Stocks, [0, 1].map(|n| json!({"productSku": format!("P{n}"), "quantity": 1}).to_string()))
            .await;
        world.drain().await;
        execute(&[&world, &sister], Stocks, &syncs, &turns).await;
        let stored = stored(
            &world,
            "SELECT p.product_sku, jsonb_build_object('quantity', s.quantity)
             FROM product_stock s JOIN product p ON p.id = s.product_id",
        )
        .await;
        let mut expected = by_acceptance(&Map::new(), &syncs);
        for product in [0, 1] {
            expected.get_mut(&product).unwrap().entry("quantity").or_insert(json!(1));
        }
        expected.retain(|_, fields| !fields.is_empty());
        assert_eq!(stored, expected, "{syncs:?} in turns {turns:?}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_created_by_the_later_sync_keeps_its_values_and_takes_the_rest_from_the_earlier(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let sister = world.sister().await;
    let earlier = json!({"productSku": "N", "name": "Earlier", "weight": 5, "internalSku": "I"});
    let earlier = world.sync(Products, [earlier.to_string()]).await;
    let later = sister.sync(Products, [json!({"productSku": "N", "name": "Later"}).to_string()]).await;
    for job in [later, earlier] {
        run(world.worker.clone(), format!("{job}:0")).await;
        assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
    }
    let as_accepted =
        "SELECT count(*) FROM product p WHERE name = 'Later' AND weight = 5 AND internal_sku = 'I'
                       AND (SELECT count(*) FROM product_eshop e WHERE e.product_id = p.id) = 2";
    assert_eq!(world.count(as_accepted).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_earlier_sync_that_is_running_respects_a_later_one_that_is_faster(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let sister = world.sister().await;
    world.products(2).await;
    let count = |sku: &str, quantity: i32| json!({"productSku": sku, "quantity": quantity}).to_string();
    world.sync(Stocks, [count("P0", 1), count("P1", 1)]).await;
    world.drain().await;
    let in_order_of_locks =
        "SELECT p.product_sku FROM product_stock s JOIN product p ON p.id = s.product_id ORDER BY s.id";
    let skus: Vec<String> = sqlx::query_scalar(in_order_of_locks).fetch_all(&world.owner).await.unwrap();
    let earlier = world.sync(Stocks, [count(&skus[0], 5), count(&skus[1], 5)]).await;
    let later = sister.sync(Stocks, [count(&skus[1], 7)]).await;
    // the earlier one has looked, and waits for the first of its locks
    let mut gate = world.owner.begin().await.unwrap();
    let first = "SELECT FROM product_stock ORDER BY id LIMIT 1 FOR UPDATE";
    sqlx::query(first).execute(&mut *gate).await.unwrap();
    let running = tokio::spawn(run(world.worker.clone(), format!("{earlier}:0")));
    world.until_locked().await;
    run(world.worker.clone(), format!("{later}:0")).await;
    assert_eq!(world.outcome(later).await, ("succeeded".to_owned(), [1, 0, 0]));
    gate.rollback().await.unwrap();
    running.await.unwrap();
    assert_eq!(world.outcome(earlier).await, ("succeeded".to_owned(), [1, 1, 0]));
    assert_eq!(world.count("SELECT sum(quantity)::bigint FROM product_stock").await, 5 + 7);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_sync_without_an_earlier_concurrent_one_leaves_no_mark(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let sister = world.sister().await;
    world.products(2).await;
    let row = json!({"productSku": "P0", "name": "Mug"}).to_string();
    let first = world.sync(Products, [row.clone()]).await;
    // syncs of its own e-shop, and those accepted later, do not matter
    let second = world.sync(Products, [row.clone()]).await;
    let of_sister = sister.sync(Products, [row]).await;
    for job in [first, second, of_sister] {
        run(world.worker.clone(), format!("{job}:0")).await;
    }
    assert_eq!(world.count(MARKS).await, 0);
    assert_eq!(world.count("SELECT count(*) FROM job WHERE state = 'succeeded'").await, 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn marks_are_removed_quickly_however_many_syncs_wait(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let marks = "INSERT INTO job (id, kind, state, organisation_id, eshop_id, sequence, acceptance, actor_type, actor_name)
                 SELECT uuid_v7(), 'product.sync', 'queued', organisation_id, id, id, n, 'user', 'u'
                 FROM eshop, generate_series(1, 10000) AS n;
                 INSERT INTO sync_mark (organisation_id, entity_id, acceptance, fields)
                 SELECT organisation_id, uuid_v7(), n, '{name}' FROM eshop, generate_series(-19998, 1) AS n;
                 INSERT INTO sync_mark (organisation_id, entity_id, acceptance, fields)
                 SELECT organisation_id, uuid_v7(), 2 * n, '{name}' FROM eshop, generate_series(1, 7) AS n;
                 INSERT INTO sync_mark (organisation_id, entity_id, acceptance, fields)
                 VALUES (uuid_v7(), uuid_v7(), 20000, '{name}')";
    world.execute(marks).await;
    // to compare each mark with each sync takes half a minute
    let expired = mark::expire(&world.services.db.main, 100_000);
    let gone = tokio::time::timeout(Duration::from_secs(10), expired).await.unwrap().unwrap();
    assert_eq!(gone, 20_001, "those before the first sync, and the one of an organisation without syncs");
    assert_eq!(world.count(MARKS).await, 7);
}
