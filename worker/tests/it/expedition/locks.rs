//! Chunks that are taken by several statements lock in the order of everybody: orders by id, then stocks by id, over all of them.

use longshore_domain::partner::push::Push;
use longshore_kernel::ids::{ExpeditionId, JobId};
use longshore_kernel::migration::MIGRATIONS;
use longshore_worker::jobs::chunk::run;
use serde_json::{Value, json};
use sqlx::PgTransaction;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::Place;

/// A row of an import.
fn row(place: &Place, number: &str, items: &[(usize, i64)]) -> Value {
    let mut row = place.body(number, items);
    row.as_object_mut().unwrap().remove("eshop");
    row
}

fn cancel(number: &str) -> Value {
    json!({"orderNumber": number, "cancel": true})
}

/// Two products that have stocks, the one with the lower id of these first.
async fn by_stock(place: &Place) -> [usize; 2] {
    place.count(&[(0, 100), (1, 100)]).await;
    let skus: Vec<String> = sqlx::query_scalar(
        "SELECT p.product_sku FROM product_stock s JOIN product p ON p.id = s.product_id ORDER BY s.id",
    )
    .fetch_all(&place.world.owner)
    .await
    .unwrap();
    let numbers: Vec<usize> = skus.iter().map(|sku| sku[1..].parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// Whether a stock is free.
async fn is_free(of: &mut PgTransaction<'_>, product: usize) -> bool {
    let locked = sqlx::query(
        "SELECT FROM product_stock s JOIN product p ON p.id = s.product_id WHERE p.product_sku = $1
         FOR UPDATE OF s SKIP LOCKED",
    )
    .bind(format!("P{product}"))
    .fetch_optional(&mut **of)
    .await
    .unwrap();
    locked.is_some()
}

async fn lock_order(of: &mut PgTransaction<'_>, order: ExpeditionId) {
    sqlx::query("SELECT FROM expedition WHERE id = $1 FOR UPDATE")
        .bind(order)
        .execute(&mut **of)
        .await
        .unwrap();
}

/// Runs the only chunk of a job while `other` holds locks; once it waits for one of them, this stock is free.
async fn while_it_waits(place: &Place, job: JobId, mut other: PgTransaction<'_>, product: usize) {
    let running = tokio::spawn(run(place.world.worker.clone(), format!("{job}:0")));
    place.world.until_locked().await;
    assert!(
        is_free(&mut other, product).await,
        "the chunk holds what {product} is, and waits for what we have"
    );
    other.commit().await.unwrap();
    running.await.unwrap();
    place.must_hold().await;
}

async fn import(place: &Place, rows: &[Value]) -> JobId {
    place.world.sync(Push::Expeditions, rows.iter().map(Value::to_string)).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_import_that_names_an_order_twice_locks_all_of_its_stocks_by_id(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    let [lower, higher] = by_stock(&place).await;
    let rows = [row(&place, "A", &[(higher, 1)]), cancel("A"), row(&place, "B", &[(lower, 1)])];
    let job = import(&place, &rows).await;
    let mut other = place.world.owner.begin().await.unwrap();
    assert!(is_free(&mut other, lower).await);
    while_it_waits(&place, job, other, higher).await;
    assert_eq!(place.world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));
    assert_eq!((place.stock(lower).await, place.stock(higher).await), ((100, 1, 0), (100, 0, 0)));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_import_that_names_an_order_twice_locks_all_of_its_orders_before_a_stock(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    let [lower, higher] = by_stock(&place).await;
    let known = place.send("known", &[(lower, 1)]).await;
    let job = import(&place, &[row(&place, "A", &[(higher, 1)]), cancel("A"), cancel("known")]).await;
    let mut other = place.world.owner.begin().await.unwrap();
    lock_order(&mut other, known).await;
    while_it_waits(&place, job, other, higher).await;
    assert_eq!(place.world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 0]));
    assert_eq!((place.stock(lower).await, place.stock(higher).await), ((100, 0, 0), (100, 0, 0)));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_is_created_during_an_import_is_found_without_waiting_for_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    let [lower, higher] = by_stock(&place).await;
    let rows =
        [row(&place, "A", &[(higher, 1)]), cancel("A"), cancel("late"), row(&place, "late", &[(lower, 1)])];
    let job = import(&place, &rows).await;
    let mut other = place.world.owner.begin().await.unwrap();
    assert!(is_free(&mut other, lower).await);
    let running = tokio::spawn(run(place.world.worker.clone(), format!("{job}:0")));
    // it has looked for its numbers
    place.world.until_locked().await;
    let mut late = place.body("late", &[(lower, 2)]);
    late["send"] = json!(false);
    place.create(late).await.unwrap();
    other.commit().await.unwrap();
    running.await.unwrap();
    assert_eq!(place.world.outcome(job).await, ("succeeded".to_owned(), [3, 0, 1]));
    assert_eq!(place.world.errors(job).await, ["3 late wrong_status"], "it was cancelled by the row before");
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn news_of_more_items_than_one_statement_takes_lock_all_of_their_orders_before_a_stock(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    let [lower, higher] = by_stock(&place).await;
    let orders = [place.send("A", &[(higher, 1)]).await, place.send("B", &[(lower, 1)]).await];
    // as if each had thousands of items
    place.world.execute("UPDATE expedition SET count_of_items = 3000, sum_of_quantity = 3000").await;
    let packed = orders.map(|order| {
        json!({"id": order.to_string(), "expedition": order, "status": "waiting_for_the_carrier"}).to_string()
    });
    let job = place.world.sync(Push::News, packed).await;
    let mut other = place.world.owner.begin().await.unwrap();
    lock_order(&mut other, orders[1]).await;
    while_it_waits(&place, job, other, higher).await;
    assert_eq!(place.world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 0]));
    assert_eq!((place.stock(lower).await, place.stock(higher).await), ((99, 0, 0), (99, 0, 0)));
}
