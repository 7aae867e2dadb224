//! Stocks sent to a feed.

use longshore_domain::partner::send_out::Extent;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::receiver::{Answer, Receiver};
use longshore_worker::context::WorkerContext;
use longshore_worker::jobs::chunk::run;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{AGAIN, accept, count_stock, dispatch, last_job};
use crate::job::support::World;
use crate::partner::baselinker::store_setting;

/// A feed that was sent two stocks.
async fn start(options: &PgConnectOptions) -> (World, Receiver) {
    let receiver = Receiver::start().await.unwrap();
    let world = World::new(options).await;
    let fields = json!({"integrationType": "feed", "credentials": {"type": "none"}, "inventories": []});
    store_setting(&world, &receiver.url("/feed"), fields).await;
    world.products(2).await;
    count_stock(&world, &[(0, 3), (1, 4)]).await;
    dispatch(&world).await;
    (world, receiver)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_comparison_of_several_turns_sends_nothing_twice(_: PgPoolOptions, options: PgConnectOptions) {
    let (mut world, receiver) = start(&options).await;
    let job = accept(&world, Extent::Comparison).await;
    // the turn is over after one call
    world.worker.stop.cancel();
    run(world.worker.clone(), format!("{job}:0")).await;
    assert_eq!(receiver.receipts().len(), 2);
    world.worker = WorkerContext::new(world.services.clone()).unwrap();
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 0]));
    assert_eq!(receiver.receipts().len(), 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn stocks_are_sent_to_a_feed_line_by_line(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, receiver) = start(&options).await;
    assert_eq!(world.outcome(last_job(&world).await).await, ("succeeded".to_owned(), [2, 0, 0]));
    let receipts = receiver.receipts();
    assert_eq!(receipts.len(), 1);
    let lines: Vec<Value> = receipts[0]
        .body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(
        lines,
        [json!({"productSku": "P0", "quantity": 3}), json!({"productSku": "P1", "quantity": 4})]
    );
    // its quantities cannot be read: a comparison sends everything
    accept(&world, Extent::Comparison).await;
    world.drain().await;
    assert_eq!(receiver.receipts().len(), 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn changes_are_sent_at_once_again_when_a_feed_that_refused_them_takes_stocks(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, receiver) = start(&options).await;
    let fields = json!({"integrationType": "feed", "credentials": {"type": "none"}, "inventories": []});
    let mut quantity = 10;
    for mended_by in ["a send-out", "the setting"] {
        let mut change = async || {
            quantity += 1;
            count_stock(&world, &[(0, quantity)]).await;
            world.execute(AGAIN).await;
            dispatch(&world).await
        };
        receiver.answer("/feed", Answer::Status(400));
        assert_eq!(change().await, 1);
        assert_eq!(world.outcome(last_job(&world).await).await.0, "failed");
        receiver.answer("/feed", Answer::Status(204));
        // the error of a pull takes the place of that of the send-out
        world
            .execute(
                "UPDATE integration_setting SET error = 'no', error_kind = 'product.sync', error_at = now()",
            )
            .await;
        assert_eq!(change().await, 0, "it may refuse them again");
        if mended_by == "the setting" {
            store_setting(&world, &receiver.url("/feed"), fields.clone()).await;
        } else {
            accept(&world, Extent::Everything).await;
            world.drain().await;
        }
        let sent = receiver.receipts().len();
        assert_eq!(change().await, 1, "{mended_by}");
        assert_eq!(receiver.receipts().len(), sent + 1, "{mended_by}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_feed_at_another_path_is_sent_all_stocks(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, receiver) = start(&options).await;
    let sent = receiver.receipts().len();
    let fields = json!({"integrationType": "feed", "credentials": {"type": "none"}, "inventories": []});
    store_setting(&world, &receiver.url("/other"), fields).await;
    accept(&world, Extent::Everything).await;
    world.drain().await;
    let receipts = receiver.receipts();
    assert_eq!(receipts[sent..].iter().map(|call| call.path.as_str()).collect::<Vec<_>>(), ["/other"]);
    assert_eq!(world.outcome(last_job(&world).await).await, ("succeeded".to_owned(), [2, 0, 0]));
}
