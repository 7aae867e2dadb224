//! Outcomes of calls whose orders, stocks or lanes another transaction has locked, as a request does that stalls.

use std::time::Duration;

use longshore_domain::expedition::handover::call::{Ask, Due};
use longshore_domain::expedition::handover::outcome::{self, Answer, Recorded};
use longshore_domain::expedition::handover::{call, lane};
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::services::until_locked;
use longshore_testkit::wms::{Mischief, On};
use longshore_worker::handover;
use serde_json::json;
use sqlx::PgTransaction;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{CANCEL, Depot, PATIENCE, outcome_of};
use crate::queue::support::eventually;

const ORDER: &str = "SELECT FROM expedition WHERE id = $1 FOR UPDATE";
const STOCKS: &str = "SELECT FROM product_stock s JOIN expedition e ON e.organisation_id = s.organisation_id
                      WHERE e.id = $1 FOR UPDATE OF s";
const LANE: &str =
    "SELECT FROM wms_lane l JOIN expedition e ON e.wms_id = l.wms_id WHERE e.id = $1 FOR UPDATE OF l";

/// Locks what is locked of an order, until the transaction ends.
async fn lock(depot: &Depot, what: &'static str, order: ExpeditionId) -> PgTransaction<'static> {
    let mut locking = depot.place.world.owner.begin().await.unwrap();
    sqlx::query(what).bind(order).execute(&mut *locking).await.unwrap();
    locking
}

fn failed() -> Answer {
    Answer::Failed { error: "no answer".to_owned(), wait: Duration::from_mins(1), hold: None }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_outcome_that_waits_for_its_order_holds_up_no_other(_: PgPoolOptions, options: PgConnectOptions) {
    let noisy = Depot::new(&options).await;
    let quiet = noisy.neighbour(&options).await;
    let order = noisy.send("A-1").await;
    noisy.system.misbehave(On::Put, Mischief::Late(Duration::from_secs(1)));
    let (worker, wms) = (noisy.worker.clone(), noisy.wms);
    let turn = tokio::spawn(async move { handover::run(&worker, wms).await });
    noisy.system.wait_until(PATIENCE, |_, asked| !asked.is_empty()).await.unwrap();
    let stalled = lock(&noisy, ORDER, order).await;
    until_locked(&noisy.place.world.owner, 1).await.unwrap();
    // another order of its own, and one of another organisation
    let sister = noisy.send("A-2").await;
    let other = quiet.send("B-1").await;
    tokio::time::timeout(PATIENCE, quiet.drain()).await.unwrap();
    quiet.must_be(other, "awaiting_processing", Some("accepted")).await;
    eventually("the lane goes on", async || {
        (noisy.state(sister).await.1.as_deref() == Some("accepted")).then_some(())
    })
    .await;
    noisy.must_be(order, "awaiting_processing", Some("sending")).await;
    stalled.rollback().await.unwrap();
    turn.await.unwrap().unwrap();
    noisy.must_be(order, "awaiting_processing", Some("accepted")).await;
    assert_eq!(noisy.calls().len(), 2, "each was called once");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_refusal_that_waits_for_a_stock_holds_up_no_other(_: PgPoolOptions, options: PgConnectOptions) {
    let noisy = Depot::new(&options).await;
    let quiet = noisy.neighbour(&options).await;
    for depot in [&noisy, &quiet] {
        depot.system.misbehave(On::Put, Mischief::Refuse(json!([{"message": "no"}])));
    }
    let order = noisy.send("A-1").await;
    let stalled = lock(&noisy, STOCKS, order).await;
    let (worker, wms) = (noisy.worker.clone(), noisy.wms);
    let turn = tokio::spawn(async move { handover::run(&worker, wms).await });
    until_locked(&noisy.place.world.owner, 1).await.unwrap();
    let other = quiet.send("B-1").await;
    tokio::time::timeout(PATIENCE, quiet.drain()).await.unwrap();
    quiet.must_be(other, "incorrect", Some("refused")).await;
    noisy.must_be(order, "awaiting_processing", Some("sending")).await;
    stalled.rollback().await.unwrap();
    turn.await.unwrap().unwrap();
    noisy.must_be(order, "incorrect", Some("refused")).await;
    assert_eq!(noisy.calls().len(), 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_locked_is_left_out_and_recorded_later(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let services = &depot.place.world.services;
    for (n, (what, answer)) in [
        (ORDER, Answer::Taken(None)),
        (ORDER, Answer::Refused(json!([]))),
        (STOCKS, Answer::Refused(json!([]))),
        (LANE, failed()),
    ]
    .into_iter()
    .enumerate()
    {
        let order = depot.send(&format!("A-{n}")).await;
        let beside = depot.send(&format!("B-{n}")).await;
        let lease = lane::lease(services, depot.wms).await.unwrap().unwrap();
        let begun = call::begin(&services.db, &lease, 8).await.unwrap();
        let of = |order: ExpeditionId| begun.iter().find(|due| due.expedition == order).unwrap();
        let taken = outcome_of(&lease, of(beside), Answer::Taken(None));
        let outcomes = [taken, outcome_of(&lease, of(order), answer.clone())];
        let stalled = lock(&depot, what, order).await;
        // a failure counts for its lane, which is that of both
        let expected = [if what == LANE { Recorded::Locked } else { Recorded::Yes }, Recorded::Locked];
        for _ in 0..2 {
            assert_eq!(outcome::record(services, &outcomes).await.unwrap(), expected, "{n}");
            assert_eq!(outcome::record_again(services, &outcomes).await.unwrap(), expected, "{n}");
        }
        depot.must_be(order, "awaiting_processing", Some("sending")).await;
        depot.must_be(beside, "awaiting_processing", Some("accepted")).await;
        stalled.rollback().await.unwrap();
        assert_eq!(outcome::record(services, &outcomes).await.unwrap(), [Recorded::Yes; 2], "{n}");
        match answer {
            Answer::Taken(_) => depot.must_be(order, "awaiting_processing", Some("accepted")).await,
            Answer::Refused(_) => depot.must_be(order, "incorrect", Some("refused")).await,
            _ => assert_eq!(depot.lane("failures").await.as_deref(), Some("1")),
        }
        lane::release(&services.db, &lease).await.unwrap();
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_outcome_that_comes_late_ends_no_call_that_has_begun_since(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let services = &depot.place.world.services;
    let order = depot.send("A-1").await;
    let lease = lane::lease(services, depot.wms).await.unwrap().unwrap();
    let begin = async || call::begin(&services.db, &lease, 8).await.unwrap().pop();
    let record = async |due: &Due, answer: Answer| {
        let recorded = outcome::record(services, &[outcome_of(&lease, due, answer)]).await.unwrap();
        assert_eq!(recorded, [Recorded::Yes]);
    };
    let first = begin().await.unwrap();
    // the outcome waits for a lock for so long that the order is called again
    depot.time_passes().await;
    let second = begin().await.unwrap();
    assert_eq!((first.attempt, second.attempt), (1, 2));
    record(&first, Answer::Taken(None)).await;
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    depot.command(order, &CANCEL).await.unwrap();
    assert!(begin().await.is_none(), "the second call has not ended");
    record(&second, Answer::Taken(None)).await;
    let withdrawal = begin().await.unwrap();
    assert_eq!((withdrawal.ask, withdrawal.attempt), (Ask::GiveBack, 1));
    for answer in [Answer::Taken(None), failed(), Answer::NotCalled] {
        record(&first, answer).await;
        assert!(begin().await.is_none(), "the withdrawal is under way");
    }
    record(&withdrawal, Answer::GivenBack).await;
    depot.must_be(order, "canceled", Some("withdrawn")).await;
    lane::release(&services.db, &lease).await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_could_not_be_counted_is_applied_once(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let services = &depot.place.world.services;
    let order = depot.send("A-1").await;
    let beside = depot.send("A-2").await;
    let lease = lane::lease(services, depot.wms).await.unwrap().unwrap();
    let begin = async || call::begin(&services.db, &lease, 8).await.unwrap();
    let begun = begin().await;
    let of = |begun: &[Due]| begun.iter().find(|due| due.expedition == order).unwrap().clone();
    let put_down = outcome_of(&lease, &of(&begun), Answer::NotCalled);
    let other = begun.iter().find(|due| due.expedition == beside).unwrap();
    // they are applied, and the lane is locked
    let outcomes = [put_down, outcome_of(&lease, other, failed())];
    let stalled = lock(&depot, LANE, order).await;
    assert_eq!(outcome::record(services, &outcomes).await.unwrap(), [Recorded::Locked; 2]);
    depot.must_be(order, "awaiting_processing", Some("pending")).await;
    stalled.rollback().await.unwrap();
    depot.time_passes().await;
    let called = of(&begin().await);
    assert_eq!((called.ask, called.attempt), (Ask::Take, 1));
    assert_eq!(outcome::record(services, &outcomes).await.unwrap(), [Recorded::Yes; 2]);
    depot.must_be(order, "awaiting_processing", Some("sending")).await;
    depot.command(order, &CANCEL).await.unwrap();
    depot.must_be(order, "waiting_for_cancel", Some("withdrawing")).await;
    let taken = outcome_of(&lease, &called, Answer::Taken(None));
    assert_eq!(outcome::record(services, &[taken]).await.unwrap(), [Recorded::Yes]);
    // the same of a warehouse that keeps its order: the next withdrawal is another one
    let kept = outcome_of(&lease, &of(&begin().await), Answer::Kept);
    assert_eq!(outcome::record(services, std::slice::from_ref(&kept)).await.unwrap(), [Recorded::Yes]);
    depot.command(order, &CANCEL).await.unwrap();
    assert_eq!(outcome::record(services, &[kept]).await.unwrap(), [Recorded::Yes]);
    depot.must_be(order, "waiting_for_cancel", Some("withdrawing")).await;
    lane::release(&services.db, &lease).await.unwrap();
}
