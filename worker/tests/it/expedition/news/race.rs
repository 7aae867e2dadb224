//! A cancel and news that come at the same moment: one is first, and both are right.

use futures::future::join_all;
use longshore_shared::expedition::command::Command;
use longshore_shared::kernel::migration::MIGRATIONS;
use longshore_shared::partner::push::Push;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::super::support::Place;
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
