//! Guarded syncs (`docs/reference/syncs.md#guard`): what would destroy too much is withheld, and released or confirmed.

use longshore_domain::catalog::product::switch;
use longshore_domain::expedition::command::Command;
use longshore_domain::job::control::{self, release};
use longshore_domain::job::kind::{ActivateProducts, JobKind};
use longshore_domain::job::withheld;
use longshore_domain::partner::push::Push::{Expeditions, Products, Stocks};
use longshore_kernel::ids::{JobId, ProductId};
use longshore_kernel::migration::MIGRATIONS;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;
use crate::expedition::support::Place;

const ON: &str = "SELECT count(*) FROM product WHERE active";
const KEPT: &str = "SELECT count(*) FROM withheld";

fn off(products: impl IntoIterator<Item = usize>) -> Vec<String> {
    products
        .into_iter()
        .map(|n| json!({"productSku": format!("P{n}"), "active": false}).to_string())
        .collect()
}

/// Syncs products with a guard, and runs the job to its end.
async fn guarded(world: &World, guard: Value, rows: Vec<String>) -> JobId {
    let job = world.sync_guarded(Products, guard, rows).await;
    world.drain().await;
    job
}

async fn withheld_of(world: &World, job: JobId) -> i64 {
    assert_eq!(world.job(job).await["state"], "succeeded");
    world.job(job).await["withheld"].as_i64().unwrap()
}

async fn release(world: &World, job: JobId, up_to: i64) -> Result<(), String> {
    let released = release::release(&world.services, &world.context, job, json!({"upTo": up_to})).await;
    released.map(|_| ()).map_err(|problem| problem.to_string())
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_would_switch_off_too_much_is_withheld_until_it_is_said_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.products(1_200).await;
    world.webhook("*").await;
    let rows = || {
        let all = (0..1_200).map(|n| match n % 100 {
            0 => json!({"productSku": format!("P{n}"), "active": false, "name": format!("Renamed {n}"), "weight": 5}),
            1 => json!({"productSku": format!("P{n}"), "active": false, "name": ""}),
            2 => json!({"productSku": format!("P{n}"), "weight": 7}),
            _ => json!({"productSku": format!("P{n}"), "active": false}),
        });
        all.map(|row| row.to_string()).collect::<Vec<_>>()
    };
    let monday = guarded(&world, json!({"maxDeactivated": "20%"}), rows()).await;
    // 12 rows of each hundred's first three: renamed, refused, changed
    assert_eq!(world.outcome(monday).await, ("succeeded".to_owned(), [12, 0, 12]));
    assert_eq!(withheld_of(&world, monday).await, 1_176);
    assert_eq!(world.job(monday).await["parameters"]["guardBase"], 1_200);
    assert_eq!(world.count(ON).await, 1_200, "nothing is switched off");
    assert_eq!(
        world.count("SELECT count(*) FROM product WHERE name LIKE 'Renamed%' AND weight = 5").await,
        12
    );
    assert_eq!(world.count(KEPT).await, 1_176);
    // what is refused of them is given back as it was sent
    let whole = "SELECT count(*) FROM job_item_error WHERE convert_from(payload, 'UTF8')::jsonb ? 'active'";
    assert_eq!(world.count(whole).await, 12);
    let told = "SELECT count(*) FROM event WHERE type = 'job_finished' AND data -> 'fields' ->> 'outcome' = 'withheld'";
    let told = told.replace("data -> 'fields' ->> 'outcome'", "data ->> 'outcome'");
    let found: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(told)).fetch_one(&world.owner).await.unwrap();
    assert_eq!(found, 1);

    let tuesday = guarded(&world, json!({"maxDeactivated": "20%"}), rows()).await;
    assert_eq!(world.outcome(tuesday).await, ("succeeded".to_owned(), [1_176, 12, 12]));
    assert_eq!(withheld_of(&world, tuesday).await, 0);
    assert_eq!(world.count(ON).await, 24);
    assert_eq!(world.count(KEPT).await, 0);
    let refused = release(&world, monday, 1_176).await.unwrap_err();
    assert!(refused.contains("withholds nothing, or no longer"), "{refused}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_the_guard_allows_is_executed_when_all_else_is(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(100).await;
    let twenty = guarded(&world, json!({"maxDeactivated": "20%"}), off(0..20)).await;
    assert_eq!(world.outcome(twenty).await, ("succeeded".to_owned(), [20, 0, 0]));
    assert_eq!(world.count(ON).await, 80);
    // those of the last hour count, whoever sends them in pieces
    let one = guarded(&world, json!({"maxDeactivated": "25%"}), off(20..21)).await;
    assert_eq!(withheld_of(&world, one).await, 1, "a quarter of 80 is 20, which were switched off just now");
    let by_number = guarded(&world, json!({"maxDeactivated": 1}), off(21..22)).await;
    assert_eq!(world.outcome(by_number).await.1, [1, 0, 0], "a number is of one sync");
    let unguarded = world.sync(Products, off(30..100)).await;
    world.drain().await;
    assert_eq!(world.outcome(unguarded).await.1, [70, 0, 0]);
    // a few are always allowed; what is off already destroys nothing
    world.execute("UPDATE job SET finished_at = now() - interval '2 hours'").await;
    let few = guarded(&world, json!({"maxDeactivated": "20%"}), off(10..30)).await;
    assert_eq!(world.outcome(few).await.1, [9, 11, 0], "one of them confirms what was withheld");
    // a product that is on elsewhere, a row that is refused, and a dry run are not withheld
    let none = guarded(&world, json!({"maxCancelled": 0}), off(0..100)).await;
    assert_eq!(withheld_of(&world, none).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_small_pushes_are_one(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(180).await;
    let mut withheld = 0;
    for push in 0..18 {
        let job = guarded(&world, json!({"maxDeactivated": "20%"}), off(push * 10..push * 10 + 10)).await;
        withheld += withheld_of(&world, job).await;
    }
    let on = world.count(ON).await;
    assert_eq!(on, withheld, "what is not withheld is off");
    assert!((144..=160).contains(&on), "{on}: a fifth of 180 are 36");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn whoever_says_otherwise_later_drops_what_is_withheld(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let products = world.products(40).await;
    let none = json!({"maxDeactivated": 0});
    let job = guarded(&world, none.clone(), off(0..40)).await;
    assert_eq!(withheld_of(&world, job).await, 40);
    // a sync of another field says nothing of it
    let renamed = json!({"productSku": "P0", "name": "Renamed"}).to_string();
    guarded(&world, none.clone(), vec![renamed]).await;
    assert_eq!(world.count(KEPT).await, 40);
    // a sync that says that it is on; a bulk; a single product
    guarded(&world, none.clone(), vec![json!({"productSku": "P0", "active": true}).to_string()]).await;
    assert_eq!(world.count(KEPT).await, 39);
    world.switch(JobKind::ProductActivate, &products[1..3]).await;
    world.drain().await;
    assert_eq!(world.count(KEPT).await, 37);
    world.switch(JobKind::ProductDeactivate, &products[3..5]).await;
    world.drain().await;
    assert_eq!(world.count(KEPT).await, 35);
    let refused = release(&world, job, 34).await.unwrap_err();
    assert!(refused.starts_with("count_differs") || refused.contains("35"), "{refused}");
    assert_eq!(world.count(ON).await, 38);
    release(&world, job, 35).await.unwrap();
    // what comes after the release wins over it, since its acceptance is later
    let later: Vec<ProductId> = products[5..7].to_vec();
    switch::accept(&world.services, &world.context, ActivateProducts, later).await.unwrap();
    world.drain().await;
    assert_eq!(world.count(ON).await, 5, "P0 to P2, and the two of the later bulk");
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [35, 5, 0]));
    assert_eq!(withheld_of(&world, job).await, 0);
    let again = release(&world, job, 100).await.unwrap_err();
    assert!(again.contains("withholds nothing"), "{again}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn orders_and_stocks_are_guarded_too(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 30).await;
    let world = &place.world;
    let counts: Vec<(usize, i64)> = (0..30).map(|n| (n, 5)).collect();
    place.count(&counts).await;
    let zeros = (0..30).map(|n| json!({"productSku": format!("P{n}"), "quantity": 0}).to_string());
    let job = world.sync_guarded(Stocks, json!({"maxZeroed": "50%"}), zeros).await;
    world.drain().await;
    assert_eq!(withheld_of(world, job).await, 30);
    let there = "SELECT count(*) FROM product_stock WHERE quantity = 5";
    assert_eq!(world.count(there).await, 30);
    // goods that arrive are more than what the sync has seen
    world.execute("UPDATE product_stock SET quantity = 9 WHERE id = (SELECT min(entity_id::text)::uuid FROM job_withheld)").await;
    assert_eq!(world.count(KEPT).await, 29);
    world.execute("UPDATE product_stock SET quantity = 5").await;
    // a count, equal or not, is what counts
    place.count(&[(0, 5), (1, 6)]).await;
    assert_eq!(world.count(KEPT).await, 28);
    release(world, job, 28).await.unwrap();
    world.drain().await;
    assert_eq!(world.count(there).await, 1);
    assert_eq!(world.outcome(job).await.1, [28, 2, 0]);
    place.must_hold().await;

    place.count(&counts).await;
    let mut orders = Vec::new();
    for n in 0..4 {
        orders.push(place.send(&format!("N{n}"), &[(n, 1)]).await);
    }
    let cancels = (0..4).map(|n| json!({"orderNumber": format!("N{n}"), "cancel": true}).to_string());
    let job = world.sync_guarded(Expeditions, json!({"maxCancelled": 3}), cancels).await;
    world.drain().await;
    assert_eq!(withheld_of(world, job).await, 4);
    place.command(orders[0], &Command::Send { rebook: false }).await.unwrap();
    assert_eq!(world.count(KEPT).await, 3, "a command says what becomes of an order");
    place.command(orders[1], &Command::Cancel { reason: None }).await.unwrap();
    assert_eq!(world.count(KEPT).await, 2);
    release(world, job, 2).await.unwrap();
    world.drain().await;
    let canceled: Vec<String> = place
        .statuses()
        .await
        .into_iter()
        .filter(|(_, status)| status == "canceled")
        .map(|(number, _)| number)
        .collect();
    assert_eq!(canceled, ["N1", "N2", "N3"]);
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_failed_chunk_and_a_cancel_leave_nothing_half_decided(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(20).await;
    let guard = json!({"maxDeactivated": 100});
    let cancelled = world.sync_guarded(Products, guard.clone(), off(0..5)).await;
    control::cancel(&world.services, &world.context, cancelled).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM job_withheld").await, 0);
    // refused rows, retried after what the guard allowed was executed
    let mut rows = off(0..10);
    rows.push(json!({"productSku": "P15", "name": ""}).to_string());
    let job = guarded(&world, guard, rows).await;
    assert_eq!(world.outcome(job).await.1, [10, 0, 1]);
    control::retry(&world.services, &world.context, job).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(job).await.1, [10, 0, 1]);
    assert_eq!(world.count(ON).await, 10);
    // withheld and refused: a retry tries what was refused, and decides once more
    let mut rows = off(10..20);
    rows.push(json!({"productSku": "P5", "name": ""}).to_string());
    let job = guarded(&world, json!({"maxDeactivated": 3}), rows).await;
    assert_eq!((world.outcome(job).await.1, withheld_of(&world, job).await), ([0, 0, 1], 10));
    control::retry(&world.services, &world.context, job).await.unwrap();
    world.drain().await;
    assert_eq!((world.outcome(job).await.1, withheld_of(&world, job).await), ([0, 0, 1], 10));
    world.execute("UPDATE job_withheld SET kept_at = now() - interval '8 days'").await;
    assert_eq!(withheld::expire(&world.services.db.main, 100).await.unwrap(), 10);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_guard_does_not_make_refused_rows_valid(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 6).await;
    let world = &place.world;
    let counts: Vec<(usize, i64)> = (0..6).map(|n| (n, 5)).collect();
    let rows = [
        json!({"productSku": "P0", "quantity": 0}),
        json!({"productSku": "P0", "quantity": 0}),
        json!({"productSku": "P1", "quantity": 0, "bogus": 1}),
        json!({"productSku": "P2", "quantity": -0.5}),
        json!({"productSku": "P3", "quantity": 0}),
        json!({"productSku": "P4", "quantity": 5}),
        json!({"productSku": "P4", "quantity": 0}),
        json!({"productSku": "P5", "quantity": -3}),
    ];
    let mut found = Vec::new();
    for guard in [json!({}), json!({"maxZeroed": 50}), json!({"maxZeroed": 0})] {
        place.count(&counts).await;
        let job = world.sync_guarded(Stocks, guard, rows.iter().map(Value::to_string)).await;
        world.drain().await;
        if withheld_of(world, job).await > 0 {
            let up_to = world.count(KEPT).await;
            release(world, job, up_to).await.unwrap();
            world.drain().await;
        }
        let quantities = "SELECT string_agg(quantity::text, ' ' ORDER BY product_sku) FROM product_stock s JOIN product p ON p.id = s.product_id";
        let quantities: String = sqlx::query_scalar(quantities).fetch_one(&world.owner).await.unwrap();
        found.push((world.outcome(job).await, world.errors(job).await, quantities));
    }
    assert_eq!(found[0].2, "0 5 5 0 5 0");
    assert_eq!(found[0], found[1], "with a guard that allows it");
    assert_eq!(found[0], found[2], "released");

    place.count(&counts).await;
    place.send("N0", &[(0, 1)]).await;
    let cancel = json!({"orderNumber": "N0", "cancel": true, "note": "x"}).to_string();
    let job = world.sync_guarded(Expeditions, json!({"maxCancelled": 5}), [cancel]).await;
    world.drain().await;
    assert_eq!(world.errors(job).await, ["0 N0 not_allowed"]);
    assert_eq!(world.count("SELECT count(*) FROM expedition WHERE status = 'canceled'").await, 0);
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn only_what_is_accepted_of_the_same_eshop_drops_or_confirms(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.products(4).await;
    let none = json!({"maxDeactivated": 0});
    let job = guarded(&world, none.clone(), off(0..4)).await;
    // a row that is refused says nothing
    let refused = json!({"productSku": "P0", "active": true, "weight": "heavy"}).to_string();
    let heavy = guarded(&world, none.clone(), vec![refused]).await;
    assert_eq!(world.outcome(heavy).await.1, [0, 0, 1]);
    assert_eq!(world.count(KEPT).await, 4);
    // what another e-shop said is no confirmation; its own word counts from now on
    world
        .execute(
            "INSERT INTO eshop SELECT (jsonb_populate_record(e, jsonb_build_object('id', uuid_v7(), 'name', 'Other'))).* FROM eshop e;
             UPDATE job SET eshop_id = (SELECT id FROM eshop WHERE name = 'Other') WHERE withheld > 0",
        )
        .await;
    let here = guarded(&world, none.clone(), off(0..1)).await;
    assert_eq!(withheld_of(&world, here).await, 1);
    assert_eq!(world.count("SELECT count(*) FROM job_withheld").await, 4);
    // a release finds that a sync has just dropped it
    let mut sync = world.owner.begin().await.unwrap();
    sqlx::query("DELETE FROM job_withheld").execute(&mut *sync).await.unwrap();
    let (released, ()) = tokio::join!(release(&world, job, 3), async {
        world.until_locked().await;
        sync.commit().await.unwrap();
    });
    assert!(released.unwrap_err().contains("withholds nothing, or no longer"));
    assert_eq!(world.job(job).await["state"], "succeeded");
    // a person forgets it
    let forgotten = guarded(&world, none, off(1..3)).await;
    control::cancel(&world.services, &world.context, forgotten).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM job_withheld").await, 0);
    assert_eq!(world.job(forgotten).await["state"], "succeeded");
    let again = control::cancel(&world.services, &world.context, forgotten).await.unwrap_err();
    assert!(again.to_string().contains("has already ended"), "{again}");
    assert_eq!(world.count(ON).await, 4);
}
