use longshore_domain::partner::push::Push;
use longshore_kernel::migration::MIGRATIONS;
use longshore_worker::jobs::chunk::run;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::super::support::Place;
use super::news;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn reports_that_are_dropped_half_way_are_taken_once_by_the_next_worker(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    const ORDERS: i64 = 12;
    let place = Place::new(&options, 1).await;
    let world = &place.world;
    place.count(&[(0, 100)]).await;
    let mut rows = Vec::new();
    for n in 0..ORDERS {
        let order = place.send(&n.to_string(), &[(0, 1)]).await;
        rows.push(news(&n.to_string(), order, json!({"status": "waiting_for_the_carrier"})).to_string());
    }
    let job = world.sync(Push::News, rows).await;
    // the stock is locked: the chunk has locked its orders, waits for it, and is dropped there
    let mut holder = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM product_stock FOR UPDATE").execute(&mut *holder).await.unwrap();
    let running = tokio::spawn(run(world.worker.clone(), format!("{job}:0")));
    world.until_locked().await;
    running.abort();
    let _ = running.await;
    holder.rollback().await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM wms_news").await, 0);
    world
        .execute("UPDATE job_chunk SET leased_until = now() - interval '1 second' WHERE state = 'running'")
        .await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [ORDERS, 0, 0]));
    assert_eq!(world.count("SELECT count(*) FROM wms_news").await, ORDERS);
    assert_eq!(world.count("SELECT count(*) FROM stock_movement WHERE kind = 'expedited'").await, ORDERS);
    assert_eq!(place.stock(0).await, (88, 0, 0));
    place.must_hold().await;
}
