//! A system that hangs, beside one that answers.

use std::time::Duration;

use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::wms::Mischief;
use longshore_worker::handover::{self, Ran};
use longshore_worker::places::Places;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::support::{CANCEL, Depot, PATIENCE};
use crate::queue::support::eventually;

/// A call that hangs lasts for the whole test.
const FOR_EVER: Duration = Duration::from_mins(10);

const HANGING: usize = 16;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_system_that_hangs_for_every_call_holds_up_no_other(_: PgPoolOptions, options: PgConnectOptions) {
    let mut bad = Depot::by_hand(&options).await;
    // few, so that it would get them all if there were no shares
    bad.worker.places = Places::new(2);
    bad.worker.deadline = FOR_EVER;
    bad.store(json!({"maxInFlight": HANGING})).await;
    bad.system.misbehave_in_turn(vec![Mischief::Hang]);
    let good = bad.neighbour(&options).await;
    for n in 0..2 * HANGING {
        bad.send(&n.to_string()).await;
    }
    let turn = |depot: &Depot| {
        let (worker, wms) = (depot.worker.clone(), depot.wms);
        tokio::spawn(async move { handover::run(&worker, wms).await })
    };
    let hangs = turn(&bad);
    bad.system.wait_until(PATIENCE, |_, asked| asked.len() == HANGING).await.unwrap();
    // the dispatcher names it again and again; it never gets a second place
    for round in 0..3 {
        assert_eq!(bad.run().await, Ran::NotLeased);
        let mut orders = Vec::new();
        for n in 0..20 {
            orders.push(good.send(&format!("{round}-{n}")).await);
        }
        tokio::time::timeout(PATIENCE, good.drain()).await.unwrap();
        for order in orders {
            assert_eq!(
                good.state(order).await,
                ("awaiting_processing".to_owned(), Some("accepted".to_owned()))
            );
        }
    }
    assert!(!hangs.is_finished(), "the first calls are still under way");
    assert_eq!(bad.calls().len(), HANGING);
    assert_eq!((good.calls().len(), good.system.book().len()), (60, 60), "each was handed over once");
    hangs.abort();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_waits_for_a_system_that_begins_to_hang_is_not_handed_over(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    const IN_FLIGHT: i64 = 4;
    const ORDERS: usize = 300;
    let mut depot = Depot::by_hand(&options).await;
    depot.worker.deadline = FOR_EVER;
    depot.store(json!({"maxInFlight": IN_FLIGHT})).await;
    for n in 0..ORDERS {
        depot.send(&n.to_string()).await;
    }
    let (worker, wms) = (depot.worker.clone(), depot.wms);
    let turn = tokio::spawn(async move { handover::run(&worker, wms).await });
    depot.system.wait_until(PATIENCE, |book, _| book.len() >= ORDERS / 3).await.unwrap();
    depot.system.misbehave_in_turn(vec![Mischief::Hang]);
    // what was recorded as begun and never called is due again, so it can be cancelled at once
    let begun = "SELECT count(*) FROM expedition_handover WHERE handover_state = 'sending'";
    let owner = &depot.place.world.owner;
    eventually("only what is called is handed over", async || {
        let sending: i64 = sqlx::query_scalar(begun).fetch_one(owner).await.unwrap();
        (sending == IN_FLIGHT).then_some(())
    })
    .await;
    let order: Uuid =
        sqlx::query_scalar("SELECT id FROM expedition_handover WHERE handover_state = 'pending' LIMIT 1")
            .fetch_one(owner)
            .await
            .unwrap();
    depot.command(order.into(), &CANCEL).await.unwrap();
    depot.must_be(order.into(), "canceled", None).await;
    turn.abort();
}
