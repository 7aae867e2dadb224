//! News that come at the same moment as another change: one is first, and both are right.

use std::time::Duration;

use futures::future::join_all;
use longshore_domain::expedition::command::Command;
use longshore_domain::partner::push::Push;
use longshore_kernel::migration::MIGRATIONS;
use longshore_worker::jobs::chunk::run;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::super::support::{Place, id};
use super::news;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn of_a_cancel_and_news_one_is_first(_: PgPoolOptions, options: PgConnectOptions) {
    const ORDERS: usize = 40;
    let place = Place::new(&options, 3).await;
    place.count(&[(0, 1_000), (1, 1_000), (2, 1_000)]).await;
    let mut orders = Vec::new();
    for n in 0..ORDERS {
        orders.push(place.send(&n.to_string(), &[(n % 3, 2), ((n + 1) % 3, 1)]).await);
    }
    let rows: Vec<String> = orders
        .iter()
        .rev()
        .map(|order| {
            news(&order.to_string(), *order, json!({"status": "waiting_for_the_carrier"})).to_string()
        })
        .collect();
    let job = place.world.sync(Push::News, rows).await;
    let cancel = Command::Cancel { reason: None };
    let cancels = join_all(orders.iter().map(|order| place.command(*order, &cancel)));
    let (answers, _) = tokio::join!(cancels, place.world.drain());
    place.world.drain().await;
    let (state, [changed, _, failed]) = place.world.outcome(job).await;
    assert_eq!(state, "succeeded");
    let mut cancelled = 0;
    for (order, answer) in orders.iter().zip(answers) {
        // the one that was second says why it was too late
        let expected = match answer {
            Ok(record) => {
                cancelled += 1;
                record["status"].clone()
            }
            Err(problem) => {
                assert_eq!(problem.kind().code, "wrong_status", "{problem}");
                json!("waiting_for_the_carrier")
            }
        };
        assert_eq!(place.status(*order).await, expected);
    }
    assert_eq!((changed, failed), (i64::try_from(ORDERS).unwrap() - cancelled, cancelled));
    // what was cancelled was packed nevertheless: pieces left for each order, and none is held
    let left = 1_000 * 3 - 3 * i64::try_from(ORDERS).unwrap();
    assert_eq!(place.world.count("SELECT sum(quantity) FROM product_stock").await, left);
    assert_eq!(place.world.count("SELECT sum(held)::bigint FROM product_stock").await, 0);
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn news_give_their_locks_back_when_an_order_lacks_a_stock_of_a_locked_product(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    // it was never sent, so it has no stock
    let order = id(&place.create(place.body("held", &[(0, 1)])).await.unwrap());
    let packed = news("n", order, json!({"status": "waiting_for_the_carrier"})).to_string();
    let job = place.world.sync(Push::News, [packed]).await;
    let mut other = place.world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM product FOR UPDATE").execute(&mut *other).await.unwrap();
    let running = tokio::spawn(run(place.world.worker.clone(), format!("{job}:0")));
    place.world.until_locked().await;
    let both = async {
        sqlx::query("SELECT FROM expedition FOR UPDATE").execute(&mut *other).await.unwrap();
        other.commit().await.unwrap();
        running.await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(5), both).await.expect("they wait for each other");
    // under a heavy load, the chunk has been put back
    place.world.execute("UPDATE job_chunk SET next_attempt_at = now() WHERE state = 'queued'").await;
    place.world.drain().await;
    assert_eq!(place.world.outcome(job).await, ("succeeded".to_owned(), [0, 0, 1]));
    assert_eq!(place.world.errors(job).await, ["0 n not_handed_over"]);
    assert_eq!(place.world.count("SELECT count(*) FROM product_stock").await, 1);
}
