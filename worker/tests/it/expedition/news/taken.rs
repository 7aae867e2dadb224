use longshore_kernel::migration::MIGRATIONS;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::super::support::Place;
use super::{audits, news, read, take, tell};

fn at(hour: u32) -> String {
    format!("2026-01-01T{hour:02}:00:00.000000+00:00")
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn reports_of_a_request_are_one_change_from_the_first_to_the_last(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    place.world.webhook("*").await;
    place.count(&[(0, 5), (1, 5)]).await;
    let order = place.send("A", &[(0, 2), (1, 1)]).await;
    let before = read(&place, order).await;
    let parcel =
        json!({"extPackageNumber": "1", "extPackageTrackingNumber": "T1", "trackingUrl": "https://t/1"});
    take(
        &place,
        &[
            news("1", order, json!({"status": "take_out", "at": at(8)})),
            news("2", order, json!({"status": "waiting_for_the_carrier", "at": at(10), "parcels": [parcel]})),
            news("3", order, json!({"status": "carrier_picked_up", "at": at(12)})),
            // late: it changes nothing, and is kept
            news("4", order, json!({"status": "completion", "at": at(9)})),
        ],
    )
    .await;
    let after = read(&place, order).await;
    assert_eq!(after["status"], "carrier_picked_up");
    assert_eq!((&after["packedAt"], &after["sentAt"]), (&json!(at(10)), &json!(at(12))));
    assert_eq!((&after["trackingNumber"], &after["expeditedCompletely"]), (&json!("T1"), &json!(true)));
    assert_eq!(after["version"], before["version"].as_i64().unwrap() + 1, "one change");
    assert_eq!((place.stock(0).await, place.stock(1).await), ((3, 0, 0), (4, 0, 0)));
    let audits = audits(&place, order).await;
    let (action, changes) = audits.last().unwrap();
    assert_eq!((action.as_str(), audits.len()), ("expedition.news", 3), "create, send, news");
    assert_eq!(changes["status"], json!(["awaiting_processing", "carrier_picked_up"]));
    let kept: Vec<&Value> = changes["news"][1].as_array().unwrap().iter().map(|row| &row["id"]).collect();
    assert_eq!(kept, ["1", "2", "3", "4"]);
    let events: Vec<Value> = sqlx::query_scalar(
        "SELECT data FROM event WHERE entity_id = $1 AND type = 'expedition_status_change' ORDER BY id",
    )
    .bind(order)
    .fetch_all(&place.world.owner)
    .await
    .unwrap();
    let last = events.last().unwrap();
    assert_eq!(events.len(), 2, "created, and this one");
    assert_eq!(last["fields"]["previousStatus"], "awaiting_processing");
    assert_eq!((&last["status"], &last["version"]), (&json!("carrier_picked_up"), &after["version"]));
    assert_eq!(last["fields"]["parcels"][0]["trackingUrl"], "https://t/1");
    // what else the record shows in another way since
    for name in ["packedAt", "sentAt", "expeditedCompletely", "trackingNumber"] {
        assert_eq!(last["fields"][name], after[name], "{name}");
    }
    let left: Vec<_> =
        last["fields"]["items"].as_array().unwrap().iter().map(|item| &item["expedited"]).collect();
    assert_eq!(left, [2, 1]);
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn lots_and_serial_numbers_that_come_after_the_packing_are_added(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 2).await;
    place.world.webhook("*").await;
    place.count(&[(0, 5), (1, 5)]).await;
    let order = place.send("A", &[(0, 2), (1, 1)]).await;
    let items = |first: Value| {
        let mut items = json!([{"productSku": "P0", "expedited": 2}, {"productSku": "P1", "expedited": 1}]);
        items[0].as_object_mut().unwrap().extend(first.as_object().unwrap().clone());
        items
    };
    // it overtakes the report of the packing
    take(&place, &[news("2", order, json!({"status": "carrier_picked_up", "at": at(12)}))]).await;
    let before = read(&place, order).await;
    let late = json!({"lot": "L-7", "serialNumbers": ["S1", "S2"]});
    let packed = json!({"status": "waiting_for_the_carrier", "at": at(12), "items": items(late)});
    take(&place, &[news("1", order, packed)]).await;
    let after = read(&place, order).await;
    assert_eq!(after["version"], before["version"].as_i64().unwrap() + 1);
    let stored: Vec<(Option<String>, Option<Vec<String>>)> = sqlx::query_as(
        "SELECT assigned_lot, serial_numbers FROM expedition_item WHERE expedition_id = $1 ORDER BY position",
    )
    .bind(order)
    .fetch_all(&place.world.owner)
    .await
    .unwrap();
    let first = (Some("L-7".to_owned()), Some(vec!["S1".to_owned(), "S2".to_owned()]));
    assert_eq!((&stored[0], &stored[1].0), (&first, &None));
    let (kind, data): (String, Value) =
        sqlx::query_as("SELECT type, data FROM event WHERE entity_id = $1 ORDER BY id DESC LIMIT 1")
            .bind(order)
            .fetch_one(&place.world.owner)
            .await
            .unwrap();
    assert_eq!((kind.as_str(), &data["changedFields"]), ("expedition_change", &json!(["items"])));
    let left: Vec<_> = data["fields"]["items"].as_array().unwrap().iter().map(|i| &i["expedited"]).collect();
    assert_eq!(left, [2, 1]);
    // they are known now
    let other = json!({"status": "delivered", "items": items(json!({"lot": "L-8"}))});
    assert_eq!(tell(&place, &[news("3", order, other)]).await.1, ["0 3 contradiction"]);
    assert_eq!((place.stock(0).await, place.stock(1).await), ((3, 0, 0), (4, 0, 0)));
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_report_that_changes_nothing_is_audited_and_leaves_the_version(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 5)]).await;
    let order = place.send("A", &[(0, 1)]).await;
    take(&place, &[news("1", order, json!({"status": "delivered", "at": at(10)}))]).await;
    let before = read(&place, order).await;
    take(&place, &[news("2", order, json!({"status": "take_out"}))]).await;
    take(&place, &[news("3", order, json!({"status": "carrier_picked_up", "at": at(11)}))]).await;
    assert_eq!(read(&place, order).await, before);
    let (action, changes) = audits(&place, order).await.pop().unwrap();
    assert_eq!(action, "expedition.news");
    assert_eq!(
        changes["news"][1],
        json!([{"id": "3", "status": "carrier_picked_up", "at": "2026-01-01T11:00:00Z"}])
    );
    assert!(changes.get("status").is_none(), "{changes}");
    // an earlier moment is a change
    take(&place, &[news("4", order, json!({"status": "carrier_picked_up", "at": at(9)}))]).await;
    let after = read(&place, order).await;
    assert_eq!(
        (&after["packedAt"], &after["sentAt"], &after["deliveredAt"]),
        (&json!(at(9)), &json!(at(9)), &json!(at(10)))
    );
    assert_eq!(after["version"], before["version"].as_i64().unwrap() + 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_report_counts_once_and_its_id_means_one_thing(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 9)]).await;
    let (order, other) = (place.send("A", &[(0, 1)]).await, place.send("B", &[(0, 1)]).await);
    let first = news("1", order, json!({"status": "waiting_for_the_carrier"}));
    let reused = news("1", other, json!({"status": "waiting_for_the_carrier"}));
    let came = tell(&place, &[first.clone(), first.clone(), reused.clone()]).await;
    assert_eq!(came, ((1, 1), vec!["2 1 id_reused".to_owned()]));
    // members in another order are the same content
    let order_first = format!(r#"{{"status":"waiting_for_the_carrier","expedition":"{order}","id":"1"}}"#);
    let again: Value = serde_json::from_str(&order_first).unwrap();
    assert_eq!(tell(&place, &[again, first.clone()]).await, ((0, 2), vec![]));
    assert_eq!(tell(&place, &[reused]).await, ((0, 0), vec!["0 1 id_reused".to_owned()]));
    assert_eq!(place.status(other).await, "awaiting_processing");
    assert_eq!(place.stock(0).await, (8, 1, 0), "the pieces left once");
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn items_say_what_left_by_id_by_product_and_by_position(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 2).await;
    place.count(&[(0, 20), (1, 20)]).await;
    let order = place.send("A", &[(0, 2), (1, 3), (0, 4)]).await;
    let record = read(&place, order).await;
    let item = |n: usize| record["items"][n]["id"].clone();
    let packed = |items: Value| json!({"status": "waiting_for_the_carrier", "items": items});
    let refused = [
        packed(json!([{"productSku": "P0", "expedited": 7}])),
        packed(json!([{"productSku": "P1", "expedited": 2}, {"id": item(1), "expedited": 2}])),
        packed(json!([{"productSku": "P7", "expedited": 1}])),
        packed(json!([{"id": order, "expedited": 1}])),
    ];
    let refused: Vec<Value> =
        refused.iter().enumerate().map(|(n, said)| news(&format!("R{n}"), order, said.clone())).collect();
    let (_, errors) = tell(&place, &refused).await;
    assert_eq!(
        errors,
        ["0 R0 too_many", "1 R1 too_many", "2 R2 unknown_reference", "3 R3 unknown_reference"]
    );
    assert_eq!(place.status(order).await, "awaiting_processing");
    let said = json!([
        {"productSku": "P0", "expedited": 5, "lot": "L7", "serialNumbers": ["S1", "S2", "S3"]},
        {"id": item(1), "expedited": 0},
    ]);
    take(&place, &[news("1", order, packed(said.clone()))]).await;
    let after = read(&place, order).await;
    let shown = |name: &str| -> Vec<Value> {
        after["items"].as_array().unwrap().iter().map(|item| item[name].clone()).collect()
    };
    assert_eq!(shown("expedited"), [json!(2), json!(0), json!(3)]);
    assert_eq!(shown("assignedLot"), [json!("L7"), json!(null), json!("L7")]);
    assert_eq!(shown("serialNumbers"), [json!(["S1", "S2"]), json!([]), json!(["S3"])]);
    assert_eq!(after["expeditedCompletely"], false);
    assert_eq!((place.stock(0).await, place.stock(1).await), ((15, 0, 0), (20, 0, 0)));
    // later ones must say the same
    let other = json!({"status": "delivered", "items": [{"productSku": "P0", "expedited": 6}]});
    let (_, errors) = tell(&place, &[news("2", order, other)]).await;
    assert_eq!(errors, ["0 2 contradiction"]);
    assert_eq!(place.status(order).await, "waiting_for_the_carrier");
    take(&place, &[news("3", order, json!({"status": "delivered", "items": said}))]).await;
    assert_eq!(place.status(order).await, "delivered");
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_item_keeps_every_lot_and_serial_number_that_was_reported(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 20)]).await;
    let order = place.send("A", &[(0, 2), (0, 3)]).await;
    let record = read(&place, order).await;
    // telephones, which have two numbers each
    let items = json!([
        {"id": record["items"][0]["id"], "expedited": 1, "lot": "L1", "serialNumbers": ["S1", "S2"]},
        {"id": record["items"][0]["id"], "expedited": 1, "lot": "L2", "serialNumbers": ["S3", "S4"]},
        {"productSku": "P0", "expedited": 1, "lot": "L3", "serialNumbers": ["S5", "S6"]},
        {"productSku": "P0", "expedited": 2, "lot": "L3"},
    ]);
    take(&place, &[news("1", order, json!({"status": "waiting_for_the_carrier", "items": items}))]).await;
    let after = read(&place, order).await;
    let shown = |name: &str| -> Vec<Value> {
        after["items"].as_array().unwrap().iter().map(|item| item[name].clone()).collect()
    };
    assert_eq!(shown("expedited"), [2, 3]);
    assert_eq!(shown("assignedLot"), ["L1, L2", "L3"]);
    assert_eq!(shown("serialNumbers"), [json!(["S1", "S2", "S3", "S4"]), json!(["S5", "S6"])]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn pieces_that_were_not_known_are_found(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 5)]).await;
    let orders = [place.send("A", &[(0, 3)]).await, place.send("B", &[(0, 2)]).await];
    take(&place, &orders.map(|order| news(&format!("T{order}"), order, json!({"status": "take_out"})))).await;
    place.count(&[(0, 1)]).await;
    place.allocate().await;
    take(
        &place,
        &orders.map(|order| news(&format!("P{order}"), order, json!({"status": "waiting_for_the_carrier"}))),
    )
    .await;
    assert_eq!(place.stock(0).await, (0, 0, 0));
    let found: i64 = sqlx::query_scalar("SELECT sum(quantity) FROM stock_movement WHERE kind = 'found'")
        .fetch_one(&place.world.owner)
        .await
        .unwrap();
    assert_eq!(found, 4);
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn late_parcels_are_merged_in_any_status(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    place.world.webhook("*").await;
    place.count(&[(0, 5)]).await;
    let order = place.send("A", &[(0, 1)]).await;
    let parcel = |number: &str, member: &str, value: &str| json!({"parcels": [{"extPackageNumber": number, member: value}]});
    take(&place, &[news("1", order, parcel("2", "extPackageTrackingNumber", "T2"))]).await;
    take(&place, &[news("2", order, json!({"status": "delivered"}))]).await;
    let before = read(&place, order).await;
    take(
        &place,
        &[
            news("3", order, parcel("1", "trackingUrl", "https://t/1")),
            news("4", order, parcel("2", "extCarrierTrackingNumber", "C2")),
            news("5", order, parcel("1", "extPackageTrackingNumber", "T1")),
        ],
    )
    .await;
    let after = read(&place, order).await;
    let mut parcels: Vec<Value> = after["parcels"].as_array().unwrap().clone();
    parcels.sort_by_key(|parcel| parcel["extPackageNumber"].to_string());
    let shown = |parcel: &Value| {
        ["extPackageTrackingNumber", "extCarrierTrackingNumber", "trackingUrl"]
            .map(|name| parcel[name].clone())
    };
    assert_eq!(shown(&parcels[0]), [json!("T1"), Value::Null, json!("https://t/1")]);
    assert_eq!(shown(&parcels[1]), [json!("T2"), json!("C2"), Value::Null]);
    assert_eq!((&after["trackingNumber"], &after["trackingUrl"]), (&json!("T2"), &json!("https://t/1")));
    assert_eq!(after["version"], before["version"].as_i64().unwrap() + 1);
    assert_eq!(after["statusSince"], before["statusSince"]);
    let event: (String, Value) =
        sqlx::query_as("SELECT type, data FROM event WHERE entity_id = $1 ORDER BY id DESC LIMIT 1")
            .bind(order)
            .fetch_one(&place.world.owner)
            .await
            .unwrap();
    let (kind, data) = event;
    assert_eq!((kind.as_str(), &data["version"]), ("expedition_change", &after["version"]));
    assert_eq!(data["changedFields"], json!(["parcels", "trackingUrl"]));
    assert_eq!(data["fields"]["parcels"].as_array().unwrap().len(), 2);
    // what a parcel gave follows its corrections
    take(&place, &[news("6", order, parcel("2", "extPackageTrackingNumber", "T3"))]).await;
    let corrected = read(&place, order).await;
    assert_eq!(
        (&corrected["trackingNumber"], &corrected["trackingUrl"]),
        (&json!("T3"), &json!("https://t/1"))
    );
}
