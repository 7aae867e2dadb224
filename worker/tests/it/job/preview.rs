//! Dry runs (`docs/reference/jobs.md#dry-run`): they change nothing, and say what the job itself will do.

use std::collections::BTreeMap;

use longshore_domain::catalog::product::switch;
use longshore_domain::expedition::bulk;
use longshore_domain::expedition::command::Command;
use longshore_domain::job::chosen::{Bulk, Chosen};
use longshore_domain::job::kind::{
    ActivateProducts, CancelExpeditions, DeactivateProducts, Job, ProcessExpeditions, RollBackExpeditions,
    SendExpeditions, Within,
};
use longshore_domain::job::preview::{self, application};
use longshore_domain::job::refused::RefusedRows;
use longshore_domain::job::{control, dispatch, retention};
use longshore_domain::partner::push::Push::{Expeditions, Products, Stocks};
use longshore_domain::webhook::delivery;
use longshore_kernel::ids::{ExpeditionId, JobId, ProductId};
use longshore_kernel::migration::MIGRATIONS;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::redelivery::ended;
use super::support::World;
use crate::expedition::support::Place;

/// Every table but those that a dry run may write, as a hash of its rows.
async fn dump(world: &World) -> BTreeMap<String, String> {
    const OWN: [&str; 5] = ["job", "job_chunk", "job_item_error", "job_preview_row", "idempotency_key"];
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_class c
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1",
    )
    .fetch_all(&world.owner)
    .await
    .unwrap();
    let mut dump = BTreeMap::new();
    for table in tables.into_iter().filter(|table| !OWN.contains(&table.as_str())) {
        let hash =
            format!("SELECT md5(coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '')) FROM {table} t");
        let hash = sqlx::query_scalar(sqlx::AssertSqlSafe(hash)).fetch_one(&world.owner).await.unwrap();
        dump.insert(table, hash);
    }
    dump
}

async fn apply(world: &World, id: JobId, body: Value) -> Result<JobId, String> {
    let applied = application::apply(&world.services, &world.context, id, body).await;
    applied.map(|answer| answer.job.unwrap()).map_err(|problem| problem.to_string())
}

/// What a dry run would do: `index key would`.
async fn items(world: &World, id: JobId) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT concat_ws(' ', index, key, would, code) FROM job_preview_row WHERE job_id = $1 ORDER BY index",
    )
    .bind(id)
    .fetch_all(&world.owner)
    .await
    .unwrap()
}

/// The changes that a dry run shows, by the key of the item.
async fn foreseen(world: &World, id: JobId) -> BTreeMap<String, Value> {
    let items: Vec<(String, Value)> =
        sqlx::query_as("SELECT key, changes FROM job_preview_row WHERE job_id = $1 AND changes IS NOT NULL")
            .bind(id)
            .fetch_all(&world.owner)
            .await
            .unwrap();
    items.into_iter().collect()
}

/// The changes that a job made, by the key of the item: several records of the audit put together.
async fn made(world: &World, id: JobId) -> BTreeMap<String, Value> {
    let records: Vec<(String, Value)> = sqlx::query_as(
        "SELECT CASE WHEN j.kind LIKE '%.sync' THEN
                    coalesce((SELECT product_sku FROM product WHERE id = entity_id),
                             (SELECT order_number FROM expedition_detail WHERE id = entity_id),
                             (SELECT product_sku FROM product_stock s JOIN product p ON p.id = s.product_id WHERE s.id = entity_id))
                ELSE entity_id::text END, changes
         FROM audit JOIN job j ON j.id = job_id
         WHERE job_id = $1 AND entity_type = CASE WHEN j.kind LIKE 'product.%' THEN 'product' WHEN j.kind = 'stock.sync' THEN 'product_stock'
                                             ELSE 'expedition' END
         ORDER BY audit.id",
    )
    .bind(id)
    .fetch_all(&world.owner)
    .await
    .unwrap();
    let mut made: BTreeMap<String, Value> = BTreeMap::new();
    for (key, changes) in records {
        let of = made.entry(key).or_insert_with(|| json!({}));
        for (field, change) in changes.as_object().unwrap() {
            match of.get_mut(field) {
                Some(before) => before[1] = change[1].clone(),
                None => of[field] = change.clone(),
            }
        }
    }
    made
}

/// Applies a dry run that has ended, and expects what it foresaw: the same counts, the same refusals, the same changes.
async fn must_do_as_foreseen(world: &World, tried: JobId) -> JobId {
    let (state, counts) = world.outcome(tried).await;
    assert_eq!(state, "succeeded", "{}", world.job(tried).await);
    let (expected, refused) = (foreseen(world, tried).await, world.errors(tried).await);
    let done = apply(world, tried, json!({})).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(done).await, (state, counts), "{:?}", world.errors(done).await);
    assert_eq!(world.errors(done).await, refused);
    assert_eq!(made(world, done).await, expected);
    done
}

fn tried(ids: impl Into<Chosen>) -> Bulk {
    Bulk { chosen: ids.into(), is_dry_run: true }
}

async fn try_switch<J: Job>(world: &World, job: impl Fn(Within) -> J, ids: &[ProductId]) -> JobId {
    let answer = switch::accept(&world.services, &world.context, job, tried(ids.to_vec())).await;
    answer.unwrap().job.unwrap()
}

async fn try_orders<J: Job>(world: &World, job: impl Fn(Within) -> J, ids: &[ExpeditionId]) -> JobId {
    let answer = bulk::accept(&world.services, &world.context, job, tried(ids.to_vec())).await;
    answer.unwrap().job.unwrap()
}

fn order(place: &Place, number: &str, items: &[(usize, i64)]) -> Value {
    let mut row = place.body(number, items);
    row.as_object_mut().unwrap().remove("eshop");
    row
}

/// Products of which some are wrong: by number, so that each dry run has others.
fn dirty_products(seed: usize) -> Vec<String> {
    (0..60)
        .map(|n| match (n + seed) % 7 {
            0 => "{".to_owned(),
            1 => json!({"productSku": format!("P{n}"), "name": ""}).to_string(),
            2 => json!({"productSku": format!("NEW-{seed}-{n}"), "name": "Mug", "weight": 320}).to_string(),
            3 => json!({"productSku": format!("P{n}"), "active": false}).to_string(),
            4 => json!({"productSku": format!("P{n}"), "type": "bundle", "childrenProducts": [{"productSku": "NOBODY", "quantity": 1}]}).to_string(),
            5 => json!({"productSku": "P1", "name": "Twice"}).to_string(),
            _ => json!({"productSku": format!("P{n}"), "name": format!("Name {seed}")}).to_string(),
        })
        .collect()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn fifty_dry_runs_of_all_kinds_change_nothing(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 20).await;
    let world = &place.world;
    let hook = world.webhook("*").await;
    place.count(&[(0, 5), (1, 3), (2, 9)]).await;
    let deliveries = ended(world, hook, "exhausted", 5).await;
    let orders = [
        place.send("A", &[(0, 2)]).await,
        place.send("B", &[(1, 50)]).await,
        place.send("C", &[(3, 1)]).await,
    ];
    let held =
        place.create(place.body("D", &[(4, 1)])).await.unwrap()["id"].as_str().unwrap().parse().unwrap();
    let products: Vec<ProductId> =
        sqlx::query_scalar("SELECT id FROM product ORDER BY id").fetch_all(&world.owner).await.unwrap();
    let unknown = ProductId::from(Uuid::nil());
    let before = dump(world).await;
    assert!(before.len() > 40, "{before:?}");
    for n in 0..50 {
        let job = match n % 10 {
            0 | 1 => world.try_sync(Products, dirty_products(n)).await,
            2 => {
                let rows = (0..25)
                    .map(|p| json!({"productSku": format!("P{p}"), "quantity": (n + p) % 5}).to_string());
                world.try_sync(Stocks, rows).await
            }
            3 => {
                let rows = [
                    order(&place, &format!("N{n}"), &[(0, 1), (7, 2)]),
                    order(&place, "A", &[(0, 3)]),
                    json!({"orderNumber": "B", "cancel": true}),
                    json!({"orderNumber": "C", "value": -1}),
                    order(&place, &format!("M{n}"), &[(99, 1)]),
                ];
                world.try_sync(Expeditions, rows.iter().map(Value::to_string)).await
            }
            4 => try_switch(world, DeactivateProducts, &[&products[..], &[unknown]].concat()).await,
            5 => try_switch(world, ActivateProducts, &products).await,
            6 => try_orders(world, CancelExpeditions, &orders).await,
            7 => try_orders(world, RollBackExpeditions, &orders).await,
            // it lacks its stock
            8 => try_orders(world, SendExpeditions, &[held]).await,
            _ => {
                let chosen = tried(deliveries.clone());
                let answer = delivery::accept(&world.services, &world.context, chosen).await.unwrap();
                answer.job.unwrap()
            }
        };
        world.drain().await;
        let (state, [changed, ..]) = world.outcome(job).await;
        assert_eq!(state, "succeeded", "{}", world.job(job).await);
        assert!(changed > 0 || n % 10 == 5, "{n}: {}", world.job(job).await);
        assert_eq!(dump(world).await, before, "{n}");
    }
    let told = "SELECT count(*) FROM job WHERE kind = 'preview' AND (preview ->> 'deliveries')::int = 0";
    assert!(world.count(told).await < 20, "the webhook would be told of most");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_sync_of_products_does_what_its_dry_run_says(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(60).await;
    world.webhook("product_change").await;
    let tried = world.try_sync(Products, dirty_products(0)).await;
    world.drain().await;
    let job = world.job(tried).await;
    assert_eq!(job["kind"], "preview");
    assert_eq!(job["preview_of"], "product.sync");
    let (_, [changed, _, failed]) = world.outcome(tried).await;
    let found = &job["preview"];
    assert_eq!(found["created"].as_i64().unwrap() + found["updated"].as_i64().unwrap(), changed, "{found}");
    assert_eq!(found["deactivated"], 9, "{found}");
    assert_eq!(found["deliveries"].as_i64().unwrap(), changed, "{found}");
    let refused = items(&world, tried).await.into_iter().filter(|item| item.contains(" refuse ")).count();
    assert_eq!(i64::try_from(refused).unwrap(), failed);
    let none = "SELECT count(*) FROM job_preview_row WHERE would = 'create' AND exists OR would = 'update' AND NOT exists";
    assert_eq!(world.count(none).await, 0);
    let done = must_do_as_foreseen(&world, tried).await;
    assert_eq!(world.job(done).await["kind"], "product.sync");
    // what it would do now is nothing
    let again = world.try_sync(Products, dirty_products(0)).await;
    world.drain().await;
    assert_eq!(world.outcome(again).await.1[0], 0);
    assert!(foreseen(&world, again).await.is_empty());
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_dry_run_keeps_as_many_items_as_it_has_room_for(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let rows = (0..30).map(|n| json!({"productSku": format!("P{n}"), "name": "Mug"}).to_string());
    // as if other chunks had found so many
    let found = async |items: i64| {
        let found = sqlx::query("UPDATE job SET preview = preview || jsonb_build_object('rows', $1::bigint)");
        found.bind(items).execute(&world.owner).await.unwrap();
    };
    let tried = world.try_sync(Products, rows.clone()).await;
    found(preview::KEPT - 10).await;
    world.drain().await;
    let kept = items(&world, tried).await;
    assert_eq!([&kept[0], &kept[9]], ["0 P0 create", "9 P9 create"]);
    assert_eq!((kept.len(), &world.job(tried).await["preview"]["created"]), (10, &json!(30)));
    // none is looked for when there is no room
    let tried = world.try_sync(Products, rows).await;
    found(preview::KEPT).await;
    world.drain().await;
    assert_eq!(
        (items(&world, tried).await.len(), &world.job(tried).await["preview"]["created"]),
        (0, &json!(30))
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_sync_of_stocks_does_what_its_dry_run_says(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 4).await;
    let world = &place.world;
    place.count(&[(0, 5), (1, 3)]).await;
    let rows = [("P0", 0), ("P1", 3), ("P2", 7), ("NOBODY", 1)]
        .map(|(sku, quantity)| json!({"productSku": sku, "quantity": quantity}).to_string());
    let tried = world.try_sync(Stocks, rows).await;
    world.drain().await;
    assert_eq!(items(world, tried).await, ["0 P0 update", "2 P2 create", "3 NOBODY refuse unknown_product"],);
    let found = &world.job(tried).await["preview"];
    assert_eq!(found["zeroed"], 1, "{found}");
    must_do_as_foreseen(world, tried).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_import_of_orders_does_what_its_dry_run_says(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 4).await;
    let world = &place.world;
    place.count(&[(0, 5), (1, 1)]).await;
    place.send("OLD", &[(0, 1)]).await;
    place.create(place.body("HELD", &[(1, 1)])).await.unwrap();
    let mut unsent = order(&place, "UNSENT", &[(0, 1)]);
    unsent["send"] = json!(false);
    let rows = [
        order(&place, "BOOKS", &[(0, 2)]),
        // a stock that is not there yet
        order(&place, "WAITS", &[(3, 1)]),
        unsent,
        json!({"orderNumber": "OLD", "cancel": true}),
        order(&place, "HELD", &[(0, 1)]),
        json!({"orderNumber": "WRONG", "value": -1}),
        order(&place, "THERE AND GONE".replace(' ', "-").as_str(), &[(0, 1)]),
        json!({"orderNumber": "THERE-AND-GONE", "cancel": true}),
    ];
    let stocks = "SELECT count(*) FROM product_stock";
    let before = world.count(stocks).await;
    let tried = world.try_sync(Expeditions, rows.iter().map(Value::to_string)).await;
    world.drain().await;
    assert_eq!(world.count(stocks).await, before);
    assert_eq!(
        items(world, tried).await,
        [
            "0 BOOKS book",
            "1 WAITS wait",
            "2 UNSENT create",
            "3 OLD cancel",
            "4 HELD update",
            "5 WRONG refuse out_of_range",
            "7 THERE-AND-GONE cancel",
        ],
    );
    let found = &world.job(tried).await["preview"];
    assert_eq!([&found["created"], &found["booked"], &found["waiting"]], [4, 1, 1], "{found}");
    let personal = "SELECT count(*) FROM job_preview_row WHERE changes::text LIKE '%Byron%'";
    assert_eq!(world.count(personal).await, 0);
    must_do_as_foreseen(world, tried).await;
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn bulks_do_what_their_dry_runs_say(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 4).await;
    let world = &place.world;
    place.count(&[(0, 5)]).await;
    let products: Vec<ProductId> =
        sqlx::query_scalar("SELECT id FROM product ORDER BY id").fetch_all(&world.owner).await.unwrap();
    let unknown = ProductId::from(Uuid::nil());
    let tried = try_switch(world, DeactivateProducts, &[&products[1..3], &[unknown]].concat()).await;
    world.drain().await;
    assert_eq!(world.outcome(tried).await.1, [2, 0, 1]);
    assert_eq!(world.job(tried).await["preview"]["deactivated"], 2);
    must_do_as_foreseen(world, tried).await;
    let orders = [place.send("A", &[(0, 2)]).await, place.send("B", &[(3, 1)]).await];
    let tried = try_orders(world, RollBackExpeditions, &orders).await;
    world.drain().await;
    assert_eq!(world.outcome(tried).await.1, [2, 0, 0]);
    must_do_as_foreseen(world, tried).await;
    let tried = try_orders(world, SendExpeditions, &orders).await;
    world.drain().await;
    let found = world.job(tried).await["preview"].clone();
    assert_eq!([&found["booked"], &found["waiting"]], [1, 1], "{found}");
    must_do_as_foreseen(world, tried).await;
    // one that is booked already would not be booked
    let mut waits = place.body("C", &[(0, 1)]);
    waits["send"] = json!(true);
    waits["waitBeforeProcessing"] = json!(true);
    let waits = place.create(waits).await.unwrap();
    assert_eq!(waits["status"], "stock_ok");
    let waits: ExpeditionId = waits["id"].as_str().unwrap().parse().unwrap();
    let processed = try_orders(world, ProcessExpeditions, &[waits]).await;
    world.drain().await;
    assert_eq!(items(world, processed).await, [format!("0 {waits} update")]);
    assert_eq!(world.job(processed).await["preview"]["booked"], 0);
    let tried = try_orders(world, CancelExpeditions, &orders).await;
    world.drain().await;
    let cancelled: Vec<String> =
        orders.iter().enumerate().map(|(n, id)| format!("{n} {id} cancel")).collect();
    assert_eq!(items(world, tried).await, cancelled);
    must_do_as_foreseen(world, tried).await;
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_has_changed_since_is_refused_unless_it_is_forced(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 5).await;
    let world = &place.world;
    place.count(&[(0, 5), (1, 5), (4, 5)]).await;
    let rows = ["P0", "P1", "NEW-1", "NEW-2"]
        .map(|sku| json!({"productSku": sku, "name": "Harbour mug", "active": false}).to_string());
    let tried = world.try_sync(Products, &rows).await;
    let same = world.try_sync(Products, &rows).await;
    let counted = world
        .try_sync(Stocks, ["P0", "P1"].map(|sku| json!({"productSku": sku, "quantity": 9}).to_string()))
        .await;
    world.drain().await;
    // one is changed, one is created
    let others =
        [json!({"productSku": "P1", "name": "Other"}), json!({"productSku": "NEW-2", "name": "Other"})];
    world.sync(Products, others.iter().map(Value::to_string)).await;
    place.count(&[(1, 6)]).await;
    let done = apply(world, tried, json!({})).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(done).await.1, [2, 0, 2]);
    assert_eq!(world.errors(done).await, ["1 P1 changed_since", "3 NEW-2 changed_since"]);
    assert_eq!(world.error_lines(done).await, [Some(5), Some(9)]);
    assert_eq!(world.count("SELECT count(*) FROM product WHERE name = 'Other' AND active").await, 2);
    let done = apply(world, counted, json!({})).await.unwrap();
    world.drain().await;
    assert_eq!(world.errors(done).await, ["1 P1 changed_since"]);
    let done = apply(world, same, json!({"force": true})).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(done).await.1, [2, 2, 0]);
    assert_eq!(world.count("SELECT count(*) FROM product WHERE name = 'Other'").await, 0);

    // another order of the same number, and a product without a stock that is there since
    let held = place.create(place.body("H", &[(4, 1)])).await.unwrap();
    let tried = world.try_sync(Expeditions, [order(&place, "H", &[(4, 2)]).to_string()]).await;
    let stocked = world.try_sync(Stocks, [json!({"productSku": "LATER", "quantity": 1}).to_string()]).await;
    world.drain().await;
    sqlx::query("DELETE FROM expedition WHERE id = $1::uuid")
        .bind(held["id"].as_str())
        .execute(&world.owner)
        .await
        .unwrap();
    place.create(place.body("H", &[(4, 3)])).await.unwrap();
    world.sync(Products, [json!({"productSku": "LATER", "name": "Mug"}).to_string()]).await;
    for (tried, refused) in [(tried, "0 H changed_since"), (stocked, "0 LATER changed_since")] {
        let done = apply(world, tried, json!({})).await.unwrap();
        world.drain().await;
        assert_eq!(world.errors(done).await, [refused]);
        // a retry is no way around it
        let retried = control::retry(&world.services, &world.context, done).await.unwrap_err().to_string();
        assert!(retried.contains("nothing to retry"), "{retried}");
    }
    world
        .execute(
            "DELETE FROM expedition WHERE id IN (SELECT id FROM expedition_detail WHERE order_number = 'H')",
        )
        .await;

    let orders = [place.send("A", &[(4, 1)]).await, place.send("B", &[(4, 1)]).await];
    let tried = try_orders(world, CancelExpeditions, &orders).await;
    world.drain().await;
    place.command(orders[0], &Command::Rollback).await.unwrap();
    let done = apply(world, tried, json!({})).await.unwrap();
    world.drain().await;
    assert_eq!(world.errors(done).await, [format!("0 {} changed_since", orders[0])]);
    let statuses = place.statuses().await;
    assert_eq!(statuses, [("A".to_owned(), "on_hold".to_owned()), ("B".to_owned(), "canceled".to_owned())]);
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_dry_run_is_applied_once_within_an_hour(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let products = world.products(2).await;
    let tried = try_switch(&world, DeactivateProducts, &products).await;
    let refusal = apply(&world, tried, json!({})).await.unwrap_err();
    assert!(
        refusal.contains("only a dry run that has succeeded can be applied; this one is queued"),
        "{refusal}"
    );
    world.drain().await;
    let retried = control::retry(&world.services, &world.context, tried).await.unwrap_err().to_string();
    assert!(retried.contains("a dry run is not retried"), "{retried}");
    let done = apply(&world, tried, json!({})).await.unwrap();
    let refusal = apply(&world, tried, json!({})).await.unwrap_err();
    assert!(refusal.contains(&format!("already applied, by the job {done}")), "{refusal}");
    world.drain().await;
    let refusal = apply(&world, done, json!({})).await.unwrap_err();
    assert!(refusal.contains("only a dry run can be applied"), "{refusal}");

    let late = try_switch(&world, ActivateProducts, &products).await;
    world.drain().await;
    assert_eq!(retention::forget_rows(&world.services.db.main, 10).await.unwrap(), 1, "of the applied one");
    world
        .execute(
            "UPDATE job SET preview_kept_until = now(), finished_at = now() - interval '61 minutes'
             WHERE applied_by IS NULL AND preview_of IS NOT NULL",
        )
        .await;
    assert_eq!(retention::forget_rows(&world.services.db.main, 10).await.unwrap(), 1);
    let refusal = apply(&world, late, json!({})).await.unwrap_err();
    assert!(refusal.contains("more than an hour ago"), "{refusal}");
    let kept = "SELECT count(*) FROM job_chunk WHERE payload IS NOT NULL OR compared IS NOT NULL";
    assert_eq!(world.count(kept).await, 0);
    world.execute("UPDATE job SET finished_at = now() - interval '8 days', preview_kept_until = preview_kept_until - interval '8 days'").await;
    assert_eq!(retention::expire(&world.services.db.main, 10).await.unwrap(), 2, "the dry runs");
    assert_eq!(world.count("SELECT count(*) FROM job_preview_row").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_no_record_can_be_called_is_refused_as_ever(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let rows = [
        (Products, r#"{"productSku":"a\u0000b","name":"Mug","weight":5}"#),
        (Stocks, r#"{"productSku":"a\u0000b","quantity":5}"#),
        (Expeditions, r#"{"orderNumber":"a\u0000b","value":5}"#),
    ];
    for (push, row) in rows {
        let tried = world.try_sync(push, [row]).await;
        assert_eq!(world.drain().await, 1, "at the first attempt");
        assert_eq!(world.outcome(tried).await, ("succeeded".to_owned(), [0, 0, 1]));
        assert_eq!(items(&world, tried).await.len(), 1);
        assert!(!world.errors(tried).await[0].ends_with("internal"), "{:?}", world.errors(tried).await);
        let found = RefusedRows::of(&world.services.db, world.context.scope(), tried).await.unwrap();
        let given_back = found.unwrap().next().await.unwrap().unwrap();
        assert!(given_back.contains(&row[1..]), "{given_back}");
    }
    // nothing at all
    let tried = world.try_sync(Products, [""; 0]).await;
    let done = apply(&world, tried, json!({})).await.unwrap();
    assert_eq!(world.outcome(done).await, ("succeeded".to_owned(), [0, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn dry_runs_are_few_and_let_all_other_work_go_first(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let products = world.products(1).await;
    let mut tried = Vec::new();
    for _ in 0..preview::UNFINISHED {
        tried.push(try_switch(&world, DeactivateProducts, &products).await);
    }
    let refused =
        switch::accept(&world.services, &world.context, ActivateProducts, self::tried(products.clone()))
            .await
            .unwrap_err();
    assert!(refused.to_string().contains("already has 4 unfinished dry runs"), "{refused}");
    // what came later, and has more than its window
    let sync =
        world.sync(Products, (0..5_000).map(|n| format!(r#"{{"productSku":"S{n}","name":"Mug"}}"#))).await;
    let due = dispatch::due(&world.services.db.main).await.unwrap();
    assert_eq!(due.len(), 4);
    assert!(due.iter().all(|(_, name)| name.starts_with(&sync.to_string())), "{due:?}");
    assert_eq!(world.waits_for(tried[0]).await.unwrap().0, "turn");
    world.drain().await;
    // they found what the sync left
    assert_eq!(world.outcome(tried[3]).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!(world.count("SELECT count(*) FROM product WHERE NOT active").await, 0);
}
