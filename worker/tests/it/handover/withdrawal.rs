//! Holding and cancelling what is handed over, and who is quicker (`docs/reference/orders.md#who-is-quicker`).

use std::time::Duration;

use longshore_domain::expedition::command::Command;
use longshore_domain::expedition::handover::outcome::{self, Answer};
use longshore_domain::expedition::handover::{call, lane};
use longshore_domain::partner::push::Push;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::wms::{Mischief, On, Stage, Step};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{CANCEL, Depot, PATIENCE, ROLLBACK, SEND, outcome_of};

async fn accepted(depot: &Depot, number: &str) -> ExpeditionId {
    let order = depot.send(number).await;
    depot.drain().await;
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    order
}

fn code(problem: &longshore_kernel::problem::Problem) -> &'static str {
    problem.kind().code
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_was_not_called_is_held_and_cancelled_at_once(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let order = depot.send("A-1").await;
    assert_eq!(depot.command(order, &ROLLBACK).await.unwrap()["status"], "on_hold");
    depot.must_be(order, "on_hold", None).await;
    let sent = depot.command(order, &SEND).await.unwrap();
    assert_eq!(sent["handover"]["number"], 1, "no call was made of it");
    assert_eq!(depot.command(order, &CANCEL).await.unwrap()["status"], "canceled");
    depot.must_be(order, "canceled", None).await;
    depot.drain().await;
    assert_eq!(depot.calls(), []);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_number_of_an_order_that_was_called_is_remembered(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let order = accepted(&depot, "A-1").await;
    depot.command(order, &ROLLBACK).await.unwrap();
    depot.drain().await;
    depot.must_be(order, "on_hold", Some("withdrawn")).await;
    assert_eq!(depot.record(order).await["handover"]["number"], 2);
    depot.command(order, &ROLLBACK).await.unwrap();
    depot.must_be(order, "on_hold", None).await;
    assert_eq!(depot.record(order).await["handover"]["number"], 2);
    depot.drain().await;
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    assert_eq!(depot.entry(order).unwrap().taken, [1, 2]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_the_warehouse_has_is_asked_back(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let (held, cancelled) = (accepted(&depot, "A-1").await, accepted(&depot, "A-2").await);
    let record = depot.command(held, &ROLLBACK).await.unwrap();
    assert_eq!(
        (&record["status"], &record["handover"]["state"]),
        (&json!("awaiting_processing"), &json!("withdrawing"))
    );
    let version = record["version"].clone();
    assert_eq!(depot.command(held, &ROLLBACK).await.unwrap()["version"], version);
    let record = depot.command(cancelled, &CANCEL).await.unwrap();
    assert_eq!(
        (&record["status"], &record["handover"]["state"]),
        (&json!("waiting_for_cancel"), &json!("withdrawing"))
    );
    let refused = depot.command(cancelled, &ROLLBACK).await.unwrap_err();
    assert_eq!(code(&refused), "wrong_status");
    depot.must_be(cancelled, "waiting_for_cancel", Some("withdrawing")).await;
    assert_eq!(depot.place.stock(0).await, (1_000, 2, 0));
    depot.drain().await;
    depot.must_be(held, "on_hold", Some("withdrawn")).await;
    depot.must_be(cancelled, "canceled", Some("withdrawn")).await;
    assert_eq!(depot.place.stock(0).await, (1_000, 0, 0));
    for order in [held, cancelled] {
        assert_eq!(depot.entry(order).unwrap().stage, Stage::Withdrawn);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_being_picked_is_kept_and_goes_back_to_where_it_was(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let webhook = depot.place.world.webhook("expedition_status_change").await;
    let (held, cancelled) = (accepted(&depot, "A-1").await, accepted(&depot, "A-2").await);
    for order in [held, cancelled] {
        depot.system.step(order.get(), Step::Pick).unwrap();
    }
    depot.command(held, &ROLLBACK).await.unwrap();
    depot.command(cancelled, &CANCEL).await.unwrap();
    depot.drain().await;
    depot.must_be(held, "awaiting_processing", Some("accepted")).await;
    assert!(depot.record(held).await["handover"]["error"].is_string());
    depot.must_be(cancelled, "awaiting_processing", Some("accepted")).await;
    let event: Value = sqlx::query_scalar(
        "SELECT e.data -> 'fields' FROM delivery d JOIN event e ON e.id = d.event_id
         WHERE d.webhook_id = $1 AND e.entity_id = $2 ORDER BY e.id DESC LIMIT 1",
    )
    .bind(webhook)
    .bind(cancelled)
    .fetch_one(&depot.place.world.owner)
    .await
    .unwrap();
    assert_eq!(event["cancel"], "refused");
    assert_eq!(event["previousStatus"], "waiting_for_cancel");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_cancel_takes_a_rollback_over(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let order = accepted(&depot, "A-1").await;
    depot.command(order, &ROLLBACK).await.unwrap();
    depot.command(order, &CANCEL).await.unwrap();
    depot.must_be(order, "waiting_for_cancel", Some("withdrawing")).await;
    depot.drain().await;
    depot.must_be(order, "canceled", Some("withdrawn")).await;
    assert_eq!(depot.calls(), [("PUT".to_owned(), 1), ("DELETE".to_owned(), 1)]);
}

/// Does a command while the call of an order is under way, whose answer is spoilt so.
async fn during_the_call(depot: &Depot, order: ExpeditionId, command: &Command) {
    let run = depot.run();
    let ask = async {
        depot.system.wait_until(PATIENCE, |_, asked| !asked.is_empty()).await.unwrap();
        depot.command(order, command).await.unwrap();
    };
    tokio::join!(run, ask);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_withdrawal_follows_the_call_that_is_under_way(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let order = depot.send("A-1").await;
    depot.system.misbehave(On::Put, Mischief::Late(Duration::from_millis(500)));
    during_the_call(&depot, order, &CANCEL).await;
    depot.drain().await;
    depot.must_be(order, "canceled", Some("withdrawn")).await;
    assert_eq!(depot.calls(), [("PUT".to_owned(), 1), ("DELETE".to_owned(), 1)]);
    assert_eq!(depot.entry(order).unwrap().stage, Stage::Withdrawn);
    assert_eq!(depot.system.peak_in_flight(), 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_withdrawal_follows_a_call_that_broke_off(_: PgPoolOptions, options: PgConnectOptions) {
    let mut depot = Depot::new(&options).await;
    for (n, fault) in [Mischief::DoneHang, Mischief::DoneCut, Mischief::Overtaken].into_iter().enumerate() {
        let order = depot.send(&n.to_string()).await;
        depot.system.misbehave(On::Put, fault);
        depot.disconnect();
        depot.drain().await;
        depot.command(order, &CANCEL).await.unwrap();
        depot.must_be(order, "waiting_for_cancel", Some("withdrawing")).await;
        depot.drain().await;
        depot.must_be(order, "canceled", Some("withdrawn")).await;
        depot.system.let_overtaken_arrive();
        assert!(!depot.entry(order).unwrap().stage.is_here());
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_call_that_is_refused_ends_a_withdrawal(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let services = &depot.place.world.services;
    for (command, status) in [(&ROLLBACK, "on_hold"), (&CANCEL, "canceled")] {
        let order = depot.send(status).await;
        let lease = lane::lease(services, depot.wms).await.unwrap().unwrap();
        let begun = call::begin(&services.db, &lease, 8).await.unwrap().pop().unwrap();
        depot.command(order, command).await.unwrap();
        // the call has not ended: nothing is due
        assert!(call::begin(&services.db, &lease, 8).await.unwrap().is_empty());
        let refused = outcome_of(&lease, &begun, Answer::Refused(json!([{"message": "no"}])));
        assert_eq!(outcome::record(services, &[refused]).await.unwrap(), [outcome::Recorded::Yes]);
        depot.must_be(order, status, Some("refused")).await;
        lane::release(&services.db, &lease).await.unwrap();
    }
    assert_eq!(depot.calls(), []);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_the_warehouse_reported_meanwhile_is_remembered(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let order = accepted(&depot, "A-1").await;
    depot.system.step(order.get(), Step::Pick).unwrap();
    depot.command(order, &CANCEL).await.unwrap();
    let event = depot.place.report(order, json!({"status": "take_out", "force": true})).await.unwrap();
    assert_eq!(event["status"], "waiting_for_cancel");
    depot.drain().await;
    depot.must_be(order, "take_out", Some("accepted")).await;
    // packed wins
    depot.command(order, &CANCEL).await.unwrap();
    let packed = json!({"status": "waiting_for_the_carrier", "force": true});
    assert_eq!(depot.place.report(order, packed).await.unwrap()["status"], "waiting_for_the_carrier");
    depot.must_be(order, "waiting_for_the_carrier", Some("accepted")).await;
    for command in [&CANCEL, &ROLLBACK] {
        assert_eq!(code(&depot.command(order, command).await.unwrap_err()), "wrong_status");
    }
    depot.drain().await;
    depot.must_be(order, "waiting_for_the_carrier", Some("accepted")).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_a_warehouse_gives_back_after_it_had_begun_is_incorrect(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let order = accepted(&depot, "A-1").await;
    depot.command(order, &ROLLBACK).await.unwrap();
    depot.place.report(order, json!({"status": "take_out", "force": true})).await.unwrap();
    depot.must_be(order, "take_out", Some("withdrawing")).await;
    depot.drain().await;
    depot.must_be(order, "incorrect", Some("withdrawn")).await;
    assert_eq!(depot.place.stock(0).await, (1_000, 0, 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn by_hand_a_cancel_is_asked_for_and_answered_by_hand(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::by_hand(&options).await;
    for (number, answer, status) in [("1", "accepted", "canceled"), ("2", "refused", "completion")] {
        let order = depot.send(number).await;
        let unasked = depot.place.report(order, json!({"cancel": answer})).await.unwrap_err();
        assert_eq!(code(&unasked), "wrong_status");
        depot.place.report(order, json!({"status": "take_out"})).await.unwrap();
        let asked = depot.command(order, &CANCEL).await.unwrap();
        assert_eq!(asked["status"], "waiting_for_cancel");
        depot.place.report(order, json!({"status": "completion"})).await.unwrap();
        assert_eq!(depot.place.report(order, json!({"cancel": answer})).await.unwrap()["status"], status);
        depot.must_be(order, status, None).await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_system_that_reports_is_passed_over_by_force_only(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let order = accepted(&depot, "A-1").await;
    let refused = depot.place.report(order, json!({"status": "take_out"})).await.unwrap_err();
    assert_eq!(code(&refused), "wrong_status");
    let canceled = json!({"status": "canceled", "force": true});
    let early = depot.place.report(order, canceled.clone()).await.unwrap_err();
    assert_eq!(code(&early), "wrong_status");
    // it is gone for good
    depot.system.misbehave_in_turn(vec![Mischief::Cut]);
    depot.command(order, &CANCEL).await.unwrap();
    depot.drain().await;
    depot.must_be(order, "waiting_for_cancel", Some("withdrawing")).await;
    assert_eq!(depot.place.report(order, canceled).await.unwrap()["status"], "canceled");
    depot.must_be(order, "canceled", Some("withdrawn")).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn no_statement_takes_back_what_the_warehouse_may_have(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let order = accepted(&depot, "A-1").await;
    for status in ["on_hold", "canceled"] {
        let refused = sqlx::query("UPDATE expedition SET status = $2, version = version + 1 WHERE id = $1")
            .bind(order)
            .bind(status)
            .execute(&depot.place.world.owner)
            .await
            .unwrap_err();
        let constraint = refused.as_database_error().and_then(|error| error.constraint().map(str::to_owned));
        assert_eq!(constraint.as_deref(), Some("what_is_handed_over_is_not_taken_back"));
    }
}

/// The errors of an order, and what its record says of the hand-over.
async fn errors(depot: &Depot, order: ExpeditionId) -> (Option<Value>, Option<String>) {
    sqlx::query_as(
        "SELECT errors, handover_error FROM expedition LEFT JOIN expedition_handover USING (id) WHERE id = $1",
    )
    .bind(order)
    .fetch_one(&depot.place.world.owner)
    .await
    .unwrap()
}

fn incorrect() -> Value {
    json!({"status": "incorrect", "errors": [{"message": "broken"}], "force": true})
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_said_to_be_incorrect_is_asked_back_before_it_can_be_cancelled(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let webhook = depot.place.world.webhook("expedition_change").await;
    let order = depot.send("A-1").await;
    depot.system.misbehave(On::Put, Mischief::Late(Duration::from_millis(500)));
    let report = async {
        depot.system.wait_until(PATIENCE, |_, asked| !asked.is_empty()).await.unwrap();
        let asked = depot.place.report(order, incorrect()).await.unwrap();
        assert_eq!(
            (&asked["status"], &asked["handover"]["state"], &asked["errors"][0]["message"]),
            (&json!("awaiting_processing"), &json!("withdrawing"), &json!("broken"))
        );
        assert_eq!(asked["handover"]["error"], Value::Null);
    };
    tokio::join!(depot.run(), report);
    depot.drain().await;
    depot.must_be(order, "incorrect", Some("withdrawn")).await;
    assert_eq!(errors(&depot, order).await.0.unwrap()[0]["message"], "broken");
    assert_eq!(depot.place.stock(0).await, (1_000, 0, 0));
    assert_eq!(depot.calls(), [("PUT".to_owned(), 1), ("DELETE".to_owned(), 1)]);
    assert_eq!(depot.command(order, &CANCEL).await.unwrap()["status"], "canceled");
    assert_eq!(depot.entry(order).unwrap().stage, Stage::Withdrawn);
    let fields: Vec<String> = sqlx::query_scalar(
        "SELECT jsonb_object_keys(e.data -> 'fields') FROM delivery d JOIN event e ON e.id = d.event_id
         WHERE d.webhook_id = $1 AND e.entity_id = $2",
    )
    .bind(webhook)
    .bind(order)
    .fetch_all(&depot.place.world.owner)
    .await
    .unwrap();
    assert_eq!(fields, ["errors"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_said_to_be_incorrect_ends_as_the_warehouse_answers(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    // it is being picked, and stays
    let order = accepted(&depot, "A-1").await;
    depot.system.step(order.get(), Step::Pick).unwrap();
    depot.place.report(order, incorrect()).await.unwrap();
    depot.drain().await;
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    let (kept, error) = errors(&depot, order).await;
    assert_eq!(kept, None);
    assert!(error.is_some());
    // a cancel takes it over
    let order = accepted(&depot, "A-2").await;
    depot.place.report(order, incorrect()).await.unwrap();
    assert_eq!(depot.command(order, &CANCEL).await.unwrap()["errors"], Value::Null);
    depot.drain().await;
    depot.must_be(order, "canceled", Some("withdrawn")).await;
    // the warehouse refuses the call that was under way
    let order = depot.send("A-3").await;
    let services = &depot.place.world.services;
    let lease = lane::lease(services, depot.wms).await.unwrap().unwrap();
    let begun = call::begin(&services.db, &lease, 8).await.unwrap().pop().unwrap();
    depot.place.report(order, incorrect()).await.unwrap();
    let refused = outcome_of(&lease, &begun, Answer::Refused(json!([{"message": "no"}])));
    assert_eq!(outcome::record(services, &[refused]).await.unwrap(), [outcome::Recorded::Yes]);
    depot.must_be(order, "incorrect", Some("refused")).await;
    assert_eq!(errors(&depot, order).await.0.unwrap()[0]["message"], "broken");
    lane::release(&services.db, &lease).await.unwrap();
    // its system is gone for good: said again, it counts
    let order = accepted(&depot, "A-4").await;
    depot.place.report(order, incorrect()).await.unwrap();
    depot.must_be(order, "awaiting_processing", Some("withdrawing")).await;
    assert_eq!(depot.place.report(order, incorrect()).await.unwrap()["status"], "incorrect");
    depot.must_be(order, "incorrect", Some("refused")).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_is_due_again_waits_for_the_call_that_is_under_way(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let services = &depot.place.world.services;
    for is_by_hand in [false, true] {
        let order = depot.send(&format!("A-{is_by_hand}")).await;
        let lease = lane::lease(services, depot.wms).await.unwrap().unwrap();
        let begun = call::begin(&services.db, &lease, 8).await.unwrap().pop().unwrap();
        assert_eq!((begun.expedition, begun.number), (order, 1));
        if is_by_hand {
            depot.command(order, &ROLLBACK).await.unwrap();
            depot.place.report(order, json!({"cancel": "accepted", "force": true})).await.unwrap();
            depot.must_be(order, "on_hold", Some("withdrawn")).await;
        } else {
            let news =
                json!({"id": "1", "expedition": order, "status": "incorrect", "errors": [{"message": "no"}]});
            depot.place.world.sync(Push::News, [news.to_string()]).await;
            depot.place.world.drain().await;
            depot.must_be(order, "incorrect", Some("refused")).await;
        }
        // held once more, and sent again
        for command in [&SEND, &ROLLBACK, &SEND] {
            depot.command(order, command).await.unwrap();
        }
        depot.must_be(order, "awaiting_processing", Some("pending")).await;
        assert!(call::begin(&services.db, &lease, 8).await.unwrap().is_empty(), "the call has not ended");
        depot.time_passes().await;
        let again = call::begin(&services.db, &lease, 8).await.unwrap().pop().unwrap();
        assert_eq!((again.expedition, again.number), (order, 2));
        let taken = outcome_of(&lease, &again, Answer::Taken(None));
        outcome::record(services, &[taken]).await.unwrap();
        depot.must_be(order, "awaiting_processing", Some("accepted")).await;
        lane::release(&services.db, &lease).await.unwrap();
    }
}
