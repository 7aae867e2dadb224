//! A system that hangs, beside one that answers.

use std::time::Duration;

use longshore_shared::kernel::migration::MIGRATIONS;
use longshore_testkit::wms::Mischief;
use longshore_worker::handover::{self, Ran};
use longshore_worker::places::Places;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{Depot, PATIENCE};

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
