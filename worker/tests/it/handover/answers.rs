//! What each answer to a hand-over makes of its order (`docs/reference/warehouse-systems.md#calls`).

use longshore_domain::expedition::handover::{setting, wake};
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::wms::{Mischief, On, Stage};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{Depot, ROLLBACK, SEND};
use crate::expedition::support::id;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_is_handed_over_and_its_version_stays(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let mut body = depot.place.body("A-1", &[(0, 2), (1, 1)]);
    body["send"] = json!(true);
    let sent = depot.place.create(body).await.unwrap();
    assert_eq!(sent["handover"]["state"], "pending");
    assert_eq!(sent["handover"]["number"], 1);
    let order = id(&sent);
    depot.drain().await;
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    let record = depot.record(order).await;
    assert_eq!(record["version"], sent["version"]);
    assert_eq!(record["changedAt"], sent["changedAt"]);
    let entry = depot.entry(order).unwrap();
    assert_eq!(entry.stage, Stage::Taken);
    assert_eq!(record["handover"]["wmsInternalId"], json!(entry.internal_id));
    assert_eq!(record["handover"]["nextAttemptAt"], json!(null));
    // what the system gets
    assert_eq!(entry.order["orderNumber"], "A-1");
    assert_eq!(entry.order["carrierCode"], 1);
    assert_eq!(entry.order["carrierServiceCode"], json!(null));
    assert_eq!(entry.order["number"], 1);
    let item = &entry.order["items"][0];
    assert_eq!(item["productSku"], "P0");
    assert_eq!(item["name"], "Product 0");
    assert_eq!(item["quantity"], 2);
    assert_eq!(item["referenceNumbers"], json!([]));
    assert_eq!(item["workAroundSnIn"], false);
    assert_eq!(item["workAroundLot"], false);
    // audited once, as what the service did
    let audited: Vec<String> = sqlx::query_scalar(
        "SELECT actor_name FROM audit WHERE entity_id = $1 AND action = 'expedition.handover'",
    )
    .bind(order)
    .fetch_all(&depot.place.world.owner)
    .await
    .unwrap();
    assert_eq!(audited, ["hand-over"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_answer_that_takes_an_order_is_an_acceptance(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    for status in [200, 201, 202, 204, 409] {
        let order = depot.send(&status.to_string()).await;
        depot.system.misbehave(On::Order(order.get()), Mischief::Status(status));
        depot.drain().await;
        depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_refusal_says_why_and_the_next_hand_over_has_the_next_number(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let order = depot.send("A-1").await;
    let violations = json!([{"propertyPath": "deliveryZip", "message": "is unknown", "code": "zip"}]);
    depot.system.misbehave(On::Any, Mischief::Refuse(violations));
    depot.drain().await;
    depot.must_be(order, "incorrect", Some("refused")).await;
    assert_eq!(depot.place.stock(0).await, (1_000, 0, 0));
    let sent = depot.record(order).await;
    // it was sent again by this
    assert_eq!(sent["errors"], json!(null));
    assert_eq!((&sent["handover"]["state"], &sent["handover"]["number"]), (&json!("pending"), &json!(2)));
    depot.drain().await;
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    assert_eq!(depot.calls(), [("PUT".to_owned(), 1), ("PUT".to_owned(), 2)]);
    let errors: Value = sqlx::query_scalar(
        "SELECT changes -> 'errors' -> 1 FROM audit WHERE entity_id = $1 AND action = 'expedition.handover' ORDER BY id LIMIT 1",
    )
    .bind(order)
    .fetch_one(&depot.place.world.owner)
    .await
    .unwrap();
    assert_eq!(errors[0]["code"], "zip");
    assert_eq!(errors[0]["propertyPath"], "deliveryZip");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_number_that_is_out_of_date_makes_the_order_incorrect(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let order = depot.send("A-1").await;
    depot.system.misbehave(On::Any, Mischief::Status(410));
    depot.drain().await;
    depot.must_be(order, "incorrect", Some("refused")).await;
    let code: String = sqlx::query_scalar("SELECT errors -> 0 ->> 'code' FROM expedition WHERE id = $1")
        .bind(order)
        .fetch_one(&depot.place.world.owner)
        .await
        .unwrap();
    assert_eq!(code, "out_of_date");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_call_whose_answer_is_lost_is_made_again_with_its_number(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut depot = Depot::new(&options).await;
    let faults = [Mischief::DoneCut, Mischief::Cut, Mischief::DoneHang, Mischief::DoneStatus(500)];
    for (n, fault) in faults.into_iter().enumerate() {
        let order = depot.send(&n.to_string()).await;
        depot.system.misbehave(On::Any, fault);
        depot.disconnect();
        depot.drain().await;
        depot.must_be(order, "awaiting_processing", Some("sending")).await;
        let record = depot.record(order).await;
        assert!(record["handover"]["error"].is_string(), "{record}");
        depot.time_passes().await;
        depot.drain().await;
        depot.must_be(order, "awaiting_processing", Some("accepted")).await;
        let entry = depot.entry(order).unwrap();
        assert_eq!((entry.number, entry.taken), (1, vec![1]));
    }
    let counted = depot.place.world.counted("handover").await;
    assert_eq!(counted, [("failed".to_owned(), 4), ("succeeded".to_owned(), 4)]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_answer_of_another_form_decides_by_its_status(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let faults = [Mischief::Short, Mischief::Flood, Mischief::Large(100_000), Mischief::WebPage];
    for (n, fault) in faults.into_iter().enumerate() {
        let order = depot.send(&n.to_string()).await;
        depot.system.misbehave(On::Any, fault.clone());
        depot.drain().await;
        depot.must_be(order, "awaiting_processing", Some("accepted")).await;
        assert_eq!(depot.entry(order).unwrap().taken, vec![1], "{fault:?}");
    }
    // it gives an order back by its status, too
    let order = depot.send("A-1").await;
    depot.drain().await;
    depot.system.misbehave(On::Order(order.get()), Mischief::Short);
    depot.command(order, &ROLLBACK).await.unwrap();
    depot.drain().await;
    depot.must_be(order, "on_hold", Some("withdrawn")).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_call_that_is_wrong_waits_a_quarter_of_an_hour_and_others_go_on(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let order = depot.send("A-1").await;
    let url = "http://127.0.0.1:1/".to_owned();
    for fault in [Mischief::Status(400), Mischief::Redirect(url)] {
        depot.system.misbehave(On::Order(order.get()), fault);
        depot.time_passes().await;
        depot.drain().await;
        let wait: f64 = sqlx::query_scalar(
            "SELECT extract(epoch FROM handover_next_attempt_at - now())::float8 FROM expedition_handover WHERE id = $1",
        )
        .bind(order)
        .fetch_one(&depot.place.world.owner)
        .await
        .unwrap();
        assert!((700.0..=901.0).contains(&wait), "{wait}");
        depot.must_be(order, "awaiting_processing", Some("sending")).await;
    }
    let shown = depot.store(json!({"maxInFlight": 9})).await;
    assert_eq!(shown["waiting"], 1);
    let other = depot.send("A-2").await;
    depot.drain().await;
    depot.must_be(other, "awaiting_processing", Some("accepted")).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_waits_is_called_again_soon_after_the_setting_was_corrected(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let wake = async || wake::wake(&depot.place.world.services).await.unwrap();
    let failed = async |number: &str| {
        let order = depot.send(number).await;
        depot.system.misbehave(On::Order(order.get()), Mischief::Status(401));
        depot.drain().await;
        depot.must_be(order, "awaiting_processing", Some("sending")).await;
        order
    };
    let order = failed("A-1").await;
    depot.store(json!({"maxInFlight": 9})).await;
    depot.drain().await;
    assert_eq!(depot.calls(), [("PUT".to_owned(), 1)], "it waits for a quarter of an hour");
    assert_eq!(wake().await, 1);
    depot.drain().await;
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    // one whose call began before the setting was stored, and failed after the first look
    let late = failed("A-2").await;
    assert_eq!(wake().await, 0, "calls may still be under way");
    depot.place.world.execute("UPDATE wms_setting SET wakes_at = wakes_at - interval '1 minute'").await;
    assert_eq!(wake().await, 1);
    depot.drain().await;
    depot.must_be(late, "awaiting_processing", Some("accepted")).await;
    // what fails since fails under this setting
    failed("A-3").await;
    assert_eq!(wake().await, 0);
    let ended: bool = sqlx::query_scalar("SELECT wakes_at IS NULL FROM wms_setting")
        .fetch_one(&depot.place.world.owner)
        .await
        .unwrap();
    assert!(ended);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_error_is_shown_until_its_order_is_taken(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let last_error = async || {
        let world = &depot.place.world;
        let shown = setting::find(&world.services, world.context.scope(), depot.wms).await.unwrap();
        let shown: Value = serde_json::from_str(&shown.body.unwrap()).unwrap();
        shown["lastError"].clone()
    };
    let order = depot.send("A-1").await;
    depot.system.misbehave(On::Order(order.get()), Mischief::Status(400));
    depot.drain().await;
    for number in ["A-2", "A-3"] {
        let other = depot.send(number).await;
        depot.drain().await;
        depot.must_be(other, "awaiting_processing", Some("accepted")).await;
        let error = last_error().await;
        assert_eq!((&error["message"], &error["expedition"]), (&json!("answered 400"), &json!(order)));
    }
    // that of an order that is taken before it gives way to it
    let other = depot.send("A-4").await;
    depot.system.misbehave(On::Order(other.get()), Mischief::Status(500));
    depot.drain().await;
    assert_eq!(last_error().await["expedition"], json!(other));
    sqlx::query("UPDATE expedition_handover SET handover_next_attempt_at = now() WHERE id = $1")
        .bind(other)
        .execute(&depot.place.world.owner)
        .await
        .unwrap();
    depot.drain().await;
    depot.must_be(other, "awaiting_processing", Some("accepted")).await;
    let error = last_error().await;
    assert_eq!((&error["message"], &error["expedition"]), (&json!("answered 400"), &json!(order)));
    depot.time_passes().await;
    depot.drain().await;
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    assert_eq!(last_error().await, Value::Null);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn orders_that_are_always_answered_with_errors_hold_up_no_others(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    // the breaker opens by them
    for n in 0..6 {
        let order = depot.send(&format!("BAD-{n}")).await;
        for _ in 0..9 {
            depot.system.misbehave(On::Order(order.get()), Mischief::Status(500));
        }
    }
    for _ in 0..3 {
        depot.drain().await;
        depot.time_passes().await;
    }
    assert!(depot.lane("probe_at").await.is_some());
    let good = depot.send("GOOD").await;
    for _ in 0..2 {
        depot.drain().await;
        depot.time_passes().await;
    }
    depot.must_be(good, "awaiting_processing", Some("accepted")).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_waits_while_one_of_its_stocks_holds_too_much(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let order = depot.send("A-1").await;
    // a count that the allocator has not seen yet
    depot.place.count(&[(0, 0)]).await;
    depot.drain().await;
    assert_eq!(depot.calls(), []);
    depot.place.allocate().await;
    depot.must_be(order, "waiting_for_goods", None).await;
    depot.place.count(&[(0, 5)]).await;
    depot.place.allocate().await;
    depot.drain().await;
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    // from what is handed over nothing is taken
    depot.place.count(&[(0, 0)]).await;
    depot.place.allocate().await;
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    assert_eq!(depot.command(order, &SEND).await.unwrap()["status"], "awaiting_processing");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_the_warehouse_has_under_an_id_that_is_lost_is_not_shipped_twice(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    // made after the backup, and handed over; then Postgres was set back, and the e-shop pushed the order again
    let first = longshore_kernel::ids::random_id();
    let order = json!({"eshop": depot.place.world.tenant.eshop, "orderNumber": "A-1"});
    assert_eq!(depot.system.take(first, order), 200);
    let second = depot.send("A-1").await;
    depot.drain().await;
    depot.must_be(second, "incorrect", Some("refused")).await;
    let errors: Value = sqlx::query_scalar("SELECT errors FROM expedition WHERE id = $1")
        .bind(second)
        .fetch_one(&depot.place.world.owner)
        .await
        .unwrap();
    assert_eq!(errors[0]["code"], "duplicate_order");
    assert_eq!(depot.place.stock(0).await, (1_000, 0, 0));
    // sent again, it is refused again
    depot.command(second, &SEND).await.unwrap();
    depot.drain().await;
    depot.must_be(second, "incorrect", Some("refused")).await;
    let is_here: Vec<_> = depot
        .system
        .book()
        .into_iter()
        .filter(|(_, entry)| entry.stage.is_here())
        .map(|(id, _)| id)
        .collect();
    assert_eq!(is_here, [first]);
}
