//! Whether the warehouse has the order that it reports of.

use longshore_domain::expedition::command::Command;
use longshore_domain::expedition::edit;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::super::support::Place;
use super::{called, handover, is_at, news, read, take, tell};

const SEND: Command = Command::Send { rebook: false };

#[sqlx::test(migrator = "MIGRATIONS")]
async fn news_of_an_order_whose_call_was_not_answered_are_its_acceptance(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = called(&options, 1).await;
    place.count(&[(0, 9)]).await;
    let (known, picked) = (place.send("A", &[(0, 1)]).await, place.send("B", &[(0, 1)]).await);
    let early = news("0", known, json!({"number": 1}));
    assert_eq!(tell(&place, &[early]).await.1, ["0 0 not_handed_over"], "no call has begun");
    for order in [known, picked] {
        is_at(&place, order, "sending").await;
    }
    let before = read(&place, known).await;
    take(
        &place,
        &[
            news("1", known, json!({"number": 1, "wmsInternalId": "W-7"})),
            news("2", picked, json!({"number": 1, "status": "take_out"})),
        ],
    )
    .await;
    let after = read(&place, known).await;
    assert_eq!((&after["status"], &after["version"]), (&json!("awaiting_processing"), &before["version"]));
    let shown = &after["handover"];
    assert_eq!(
        (&shown["state"], &shown["wmsInternalId"], &shown["nextAttemptAt"]),
        (&json!("accepted"), &json!("W-7"), &json!(null))
    );
    assert_eq!(place.status(picked).await, "take_out");
    assert_eq!(handover(&place, picked).await, (Some("accepted".to_owned()), 1));
    // a later report keeps what it does not say
    take(&place, &[news("3", known, json!({"status": "completion"}))]).await;
    assert_eq!(read(&place, known).await["handover"]["wmsInternalId"], "W-7");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_the_warehouse_cannot_do_is_incorrect_and_its_number_is_old(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = called(&options, 1).await;
    place.world.webhook("*").await;
    place.count(&[(0, 9)]).await;
    let order = place.send("A", &[(0, 2)]).await;
    is_at(&place, order, "accepted").await;
    let broken =
        json!({"status": "incorrect", "errors": [{"message": "is broken", "propertyPath": "items[0]"}]});
    take(&place, &[news("1", order, json!({"status": "take_out"})), news("2", order, broken)]).await;
    let record = read(&place, order).await;
    assert_eq!(record["status"], "incorrect");
    assert_eq!(record["errors"][0]["message"], "is broken");
    assert_eq!(handover(&place, order).await, (Some("refused".to_owned()), 1));
    assert_eq!(place.stock(0).await, (9, 0, 0), "its pieces are free");
    let events: Vec<String> =
        sqlx::query_scalar("SELECT type FROM event WHERE entity_id = $1 ORDER BY id DESC LIMIT 2")
            .bind(order)
            .fetch_all(&place.world.owner)
            .await
            .unwrap();
    assert!(events.contains(&"expedition_booked_change".to_owned()), "{events:?}");
    // sent again, it has another number
    place.command(order, &SEND).await.unwrap();
    assert_eq!(handover(&place, order).await, (Some("pending".to_owned()), 2));
    let late = [
        news("3", order, json!({"number": 1, "status": "completion"})),
        news("4", order, json!({"status": "completion"})),
        news("5", order, json!({"number": 2, "status": "take_out"})),
    ];
    assert_eq!(tell(&place, &late).await.1, ["0 3 old_number", "1 4 old_number", "2 5 not_handed_over"]);
    let message: String =
        sqlx::query_scalar("SELECT message FROM job_item_error WHERE code = 'not_handed_over'")
            .fetch_one(&place.world.owner)
            .await
            .unwrap();
    assert_eq!(message, "number must not be 2: the order was not handed over by that number");
    is_at(&place, order, "accepted").await;
    // the pieces of the old number have left, and the order is still to be packed
    let packed = news(
        "6",
        order,
        json!({"number": 1, "status": "delivered", "items": [{"productSku": "P0", "expedited": 1}]}),
    );
    assert_eq!(tell(&place, &[packed]).await.1, ["0 6 contradiction"]);
    assert_eq!(
        (place.status(order).await.as_str(), place.stock(0).await),
        ("awaiting_processing", (8, 2, 0))
    );
    take(&place, &[news("7", order, json!({"number": 2, "status": "delivered"}))]).await;
    assert_eq!(place.stock(0).await, (6, 0, 0));
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn pieces_that_left_under_an_old_number_are_taken_from_others(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = called(&options, 1).await;
    place.count(&[(0, 2)]).await;
    let order = place.send("A", &[(0, 2)]).await;
    is_at(&place, order, "accepted").await;
    let broken = json!({"status": "incorrect", "errors": [{"message": "is broken"}]});
    take(&place, &[news("1", order, broken)]).await;
    let other = place.send("B", &[(0, 2)]).await;
    let packed = news("2", order, json!({"status": "waiting_for_the_carrier"}));
    assert_eq!(tell(&place, &[packed]).await.1, ["0 2 contradiction"]);
    assert_eq!(place.stock(0).await, (0, 2, 0));
    place.allocate().await;
    assert_eq!(place.status(other).await, "waiting_for_goods");
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_old_number_takes_out_the_items_that_it_was_handed_over_with(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = called(&options, 2).await;
    place.count(&[(0, 20), (1, 20)]).await;
    let order = place.send("A", &[(0, 5)]).await;
    let item = read(&place, order).await["items"][0]["id"].clone();
    is_at(&place, order, "accepted").await;
    place.command(order, &Command::Rollback).await.unwrap();
    take(&place, &[news("1", order, json!({"cancel": "accepted"}))]).await;
    // edited twice, and handed over by neither
    for quantity in [1, 2] {
        let body = json!({"items": [{"productSku": "P1", "quantity": quantity}]});
        let (services, context) = (&place.world.services, &place.world.context);
        edit::update(services, context, order, body, |_| Ok(())).await.unwrap();
    }
    let packed = |id: &str, members: serde_json::Value| {
        let mut packed = json!({"number": 1, "status": "waiting_for_the_carrier"});
        packed.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        news(id, order, packed)
    };
    let other = packed("2", json!({"items": [{"productSku": "P1", "expedited": 1}]}));
    assert_eq!(tell(&place, &[other]).await.1, ["0 2 unknown_reference"]);
    place.command(order, &SEND).await.unwrap();
    is_at(&place, order, "accepted").await;
    assert_eq!(tell(&place, &[packed("3", json!({}))]).await.1, ["0 3 contradiction"]);
    assert_eq!((place.stock(0).await, place.stock(1).await), ((15, 0, 0), (20, 2, 0)));
    let left: Vec<(serde_json::Value, i32)> = sqlx::query_as(
        "SELECT to_jsonb(expedition_item_id), quantity FROM stock_movement WHERE kind = 'expedited'",
    )
    .fetch_all(&place.world.owner)
    .await
    .unwrap();
    assert_eq!(left, [(item, -5)]);
    take(&place, &[packed("4", json!({"number": 2}))]).await;
    assert_eq!((place.stock(0).await, place.stock(1).await), ((15, 0, 0), (18, 0, 0)));
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn in_a_wms_without_a_setting_orders_are_handed_over_by_hand(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 2)]).await;
    let (booked, waiting) = (place.send("A", &[(0, 2)]).await, place.send("B", &[(0, 2)]).await);
    let rows = [
        news("1", waiting, json!({"status": "take_out"})),
        news("2", booked, json!({"status": "take_out", "number": 1})),
        news("3", booked, json!({"status": "take_out", "number": 0, "wmsInternalId": "W"})),
    ];
    assert_eq!(
        tell(&place, &rows).await,
        ((1, 0), vec!["0 1 not_handed_over".to_owned(), "1 2 not_handed_over".to_owned()])
    );
    assert_eq!(place.status(booked).await, "take_out");
    place.must_hold().await;
}
