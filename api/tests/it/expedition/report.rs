//! Status by hand (`docs/reference/orders.md#status-by-hand`).

use chrono::{DateTime, Duration, Utc};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, World, must_be_wrong_status};
use crate::support::strangers;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_report_is_checked_before_anything_is_taken(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let order = world.at("awaiting_processing", "1").await;
    let other = world.at("awaiting_processing", "2").await;
    let item = |order: &Value, expedited: i64| json!({"id": order["items"][0]["id"], "expedited": expedited});
    let ahead = (world.api.services.clock.now() + Duration::minutes(6)).to_rfc3339();
    let error = json!({"message": "m"});
    for (body, violation) in [
        (json!({}), "status required"),
        (json!({"status": "awaiting_processing"}), "status not_allowed"),
        (json!({"status": "canceled"}), "status contradiction"),
        (json!({"status": "on_hold"}), "status not_allowed"),
        (json!({"status": "probably_delivered"}), "status not_allowed"),
        (json!({"status": null}), "status wrong_type"),
        (json!({"status": "take_out", "at": ahead}), "at in_future"),
        (json!({"status": "take_out", "at": "0001-01-01T00:00:00Z"}), "at out_of_range"),
        (json!({"status": "take_out", "at": "today"}), "at invalid_timestamp"),
        (json!({"status": "take_out", "number": 1}), "number unknown_field"),
        (json!({"status": "take_out", "id": "1"}), "id unknown_field"),
        (json!({"status": "take_out", "expedition": "1"}), "expedition unknown_field"),
        (json!({"status": "take_out", "cancel": "accepted"}), "cancel contradiction"),
        (json!({"status": "take_out", "force": "yes"}), "force wrong_type"),
        (json!({"status": "incorrect"}), "errors required"),
        (json!({"status": "incorrect", "errors": []}), "errors invalid_count"),
        (json!({"status": "incorrect", "errors": vec![error.clone(); 101]}), "errors invalid_count"),
        (json!({"status": "incorrect", "errors": [{}]}), "errors[0].message required"),
        (
            json!({"status": "incorrect", "errors": [{"message": "m", "code": "x".repeat(101)}]}),
            "errors[0].code invalid_length",
        ),
        (json!({"status": "take_out", "errors": [error]}), "errors not_allowed"),
        (json!({"status": "incorrect", "errors": [error], "items": [item(&order, 1)]}), "items not_allowed"),
        (json!({"status": "completion", "items": [item(&order, 1)]}), "items not_allowed"),
        (json!({"status": "delivered", "items": [item(&order, -1)]}), "items[0].expedited out_of_range"),
        (json!({"status": "delivered", "items": [item(&order, 2)]}), "items[0].expedited too_many"),
        (
            json!({"status": "delivered", "items": [item(&order, 1), item(&order, 1)]}),
            "items[0].expedited too_many",
        ),
        (
            json!({"status": "delivered", "items": [item(&order, 1), item(&other, 1)]}),
            "items[1].id unknown_reference",
        ),
        (json!({"status": "delivered", "items": []}), "items invalid_count"),
        (json!({"status": "take_out", "parcels": []}), "parcels invalid_count"),
        (json!({"status": "take_out", "parcels": [{}]}), "parcels[0].extPackageNumber required"),
        (
            json!({"status": "take_out", "parcels": vec![json!({"extPackageNumber": "1"}); 101]}),
            "parcels invalid_count",
        ),
        (
            json!({"status": "take_out", "parcels": [{"extPackageNumber": "1", "trackingUrl": "x".repeat(2_001)}]}),
            "parcels[0].trackingUrl invalid_length",
        ),
    ] {
        let refused = world.report(&order, body.clone()).await.expect(400);
        assert_eq!(refused.violations(), [violation], "{body}");
    }
    let malformed = json!({"status": "delivered", "items": [item(&order, -1), item(&other, 1), {"id": "x"}]});
    assert_eq!(
        world.report(&order, malformed).await.expect(400).violations(),
        [
            "items[0].expedited out_of_range",
            "items[2].id invalid_id",
            "items[2].expedited required",
            "items[1].id unknown_reference",
        ]
    );
    assert_eq!(world.read(&order).await, order);
    // what is packed stays so: items of a later report are looked at, too
    let packed = world.report(&order, json!({"status": "waiting_for_the_carrier"})).await.expect(200).json();
    let refused = world.report(&order, json!({"status": "delivered", "items": [item(&other, 1)]})).await;
    assert_eq!(refused.expect(400).violations(), ["items[0].id unknown_reference"]);
    let contradicting = json!({"status": "delivered", "items": [item(&order, 0)]});
    let refused = world.report(&order, contradicting).await.expect(400);
    assert_eq!(refused.violations(), ["items[0].expedited contradiction"]);
    assert_eq!(world.read(&order).await, packed);
    let same = json!({"status": "waiting_for_the_carrier", "items": [item(&order, 1)]});
    assert_eq!(world.report(&order, same).await.expect(200).json()["version"], packed["version"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn moments_are_the_earliest_that_said_them(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let at = |hour: u32| format!("2026-01-01T{hour:02}:00:00.000000+00:00");
    let of =
        |order: &Value| [order["packedAt"].clone(), order["sentAt"].clone(), order["deliveredAt"].clone()];
    let order = world.at("awaiting_processing", "1").await;
    let mut now = order.clone();
    for (status, hour, expected) in [
        ("completion", 8, [None, None, None]),
        // before the order was created: it is taken as it is
        ("waiting_for_the_carrier", 10, [Some(10), None, None]),
        ("ready_to_takeover", 12, [Some(10), Some(12), None]),
        ("ready_to_takeover", 11, [Some(10), Some(11), None]),
        ("ready_to_takeover", 13, [Some(10), Some(11), None]),
        ("delivered", 9, [Some(9), Some(9), Some(9)]),
    ] {
        now = world.report(&order, json!({"status": status, "at": at(hour)})).await.expect(200).json();
        assert_eq!(
            of(&now),
            expected.map(|hour| hour.map_or(Value::Null, |hour| json!(at(hour)))),
            "{status} {hour}"
        );
    }
    must_be_wrong_status(world.report(&order, json!({"status": "completion"})).await, "delivered");
    assert_eq!(world.read(&order).await, now);
    let order = world.at("awaiting_processing", "2").await;
    let soon = world.api.services.clock.now() + Duration::minutes(4);
    let body = json!({"status": "delivered", "at": soon.to_rfc3339()});
    let now = world.report(&order, body).await.expect(200).json();
    let delivered: DateTime<Utc> = now["deliveredAt"].as_str().unwrap().parse().unwrap();
    assert!((delivered - soon).abs() < Duration::milliseconds(1), "{delivered}");
}

#[tokio::test]
async fn parcels_are_merged_by_their_number_and_none_is_removed() {
    let world = World::new(&strangers().await).await;
    world.webhook(world.api.tenant.eshop.get(), "expedition_status_change").await;
    let order = world.at("awaiting_processing", "1").await;
    let report = async |status: &str, parcels: Value| {
        world.report(&order, json!({"status": status, "parcels": parcels})).await.expect(200).json()
    };
    let shown = |order: &Value| -> Vec<Value> {
        let show = |p: &Value| {
            json!([
                p["extPackageNumber"],
                p["extPackageTrackingNumber"],
                p["extCarrierTrackingNumber"],
                p["trackingUrl"]
            ])
        };
        order["parcels"].as_array().unwrap().iter().map(show).collect()
    };
    let first = json!([
        {"extPackageNumber": "A", "extPackageTrackingNumber": "TA"},
        {"extPackageNumber": "B", "trackingUrl": "https://b.example"},
        {"extPackageNumber": "A", "trackingUrl": "https://a.example"},
    ]);
    let now = report("take_out", first.clone()).await;
    assert_eq!(
        shown(&now),
        [json!(["A", "TA", null, "https://a.example"]), json!(["B", null, null, "https://b.example"])]
    );
    assert_eq!(now["trackingNumber"], "TA");
    let event = world.last_event().await;
    assert_eq!(event["fields"]["trackingNumber"], "TA");
    assert_eq!(event["fields"]["parcels"].as_array().unwrap().len(), 2);
    // reported again, nothing changes
    assert_eq!(report("take_out", first).await, now);
    let other = json!([{"extPackageNumber": "C", "extPackageTrackingNumber": "TC"}, {"extPackageNumber": "A", "extCarrierTrackingNumber": "CA"}]);
    let later = report("waiting_for_the_carrier", other).await;
    assert_eq!(
        shown(&later),
        [
            json!(["A", "TA", "CA", "https://a.example"]),
            json!(["B", null, null, "https://b.example"]),
            json!(["C", "TC", null, null])
        ]
    );
    // the number that it has stays, in the record and in the event, which has all parcels
    assert_eq!(later["trackingNumber"], "TA");
    let event = world.last_event().await;
    assert_eq!(event["fields"]["trackingNumber"], "TA", "{event}");
    assert_eq!(event["fields"]["parcels"].as_array().unwrap().len(), 3, "{event}");
    assert_eq!(later["version"], now["version"].as_i64().unwrap() + 1);
    // late ones are taken, too; a record's own members are passed over
    let parcel = &later["parcels"][0];
    let late = report("waiting_for_the_carrier", json!([parcel, {"extPackageNumber": "D"}])).await;
    assert_eq!(shown(&late).len(), 4);
    assert_eq!(
        (&late["status"], &late["version"]),
        (&later["status"], &json!(later["version"].as_i64().unwrap() + 1))
    );

    let own = world.sent("2", &json!({"trackingNumber": "OWN"})).await;
    let body = json!({"status": "take_out", "parcels": [{"extPackageNumber": "A", "extPackageTrackingNumber": "TA", "trackingUrl": "https://a.example"}]});
    let own = world.report(&own, body).await.expect(200).json();
    assert_eq!((&own["trackingNumber"], &own["trackingUrl"]), (&json!("OWN"), &json!("https://a.example")));
    let fields = &world.last_event().await["fields"];
    assert_eq!(
        (&fields["trackingNumber"], &fields["trackingUrl"]),
        (&json!("OWN"), &json!("https://a.example"))
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_the_warehouse_cannot_do_is_incorrect_and_gives_its_pieces_back(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "*").await;
    let order = world.at("completion", "1").await;
    assert_eq!(order["items"][0]["booked"], 1);
    let errors = json!([{"propertyPath": "items[0]", "message": "is broken", "code": "damaged"}, {"message": "no box"}]);
    let now = world.report(&order, json!({"status": "incorrect", "errors": errors})).await.expect(200).json();
    let value = json!({"{{ value }}": ""});
    assert_eq!(
        now["errors"],
        json!([
            {"propertyPath": "items[0]", "message": "is broken", "code": "damaged", "parameters": value},
            {"propertyPath": "", "message": "no box", "code": "refused_by_warehouse", "parameters": value},
        ])
    );
    assert_eq!((&now["items"][0]["booked"], &now["items"][0]["missing"]), (&json!(0), &Value::Null));
    assert_eq!(world.count("SELECT sum(held)::bigint FROM product_stock").await, 0);
    let events = "SELECT count(*) FROM event WHERE type = 'expedition_status_change' AND data -> 'fields' ->> 'status' = 'incorrect'
                AND jsonb_array_length(data -> 'fields' -> 'errors') = 2";
    assert_eq!(world.count(events).await, 1);
    // again, the errors are replaced
    let body = json!({"status": "incorrect", "errors": [{"message": "still broken"}]});
    let again = world.report(&order, body.clone()).await.expect(200).json();
    assert_eq!(again["errors"][0]["message"], "still broken");
    assert_eq!(world.report(&order, body).await.expect(200).json(), again);
    let sent = world.act(&order, "send", Value::Null).await.expect(200).json();
    assert_eq!((&sent["status"], &sent["errors"]), (&json!("awaiting_processing"), &Value::Null));
    world.must_hold().await;
}

#[tokio::test]
async fn what_leaves_is_counted_by_item_and_the_rest_is_given_up() {
    let world = World::new(&strangers().await).await;
    let items = json!([{"product": world.mug, "quantity": 5}, {"product": world.mug, "quantity": 2}, {"product": world.mug, "quantity": 1}]);
    let order = world.sent("1", &json!({"items": items})).await;
    let id = |n: usize| order["items"][n]["id"].clone();
    let left =
        json!([{"id": id(0), "expedited": 1}, {"id": id(1), "expedited": 2}, {"id": id(0), "expedited": 2}]);
    let now =
        world.report(&order, json!({"status": "carrier_picked_up", "items": left})).await.expect(200).json();
    let expedited: Vec<_> = now["items"].as_array().unwrap().iter().map(|i| i["expedited"].clone()).collect();
    assert_eq!(expedited, [3, 2, 0]);
    assert_eq!(now["expeditedCompletely"], false);
    assert!(now["items"].as_array().unwrap().iter().all(|i| i["missing"].is_null() && i["booked"] == 0));
    assert_eq!(world.stock(&world.mug).await, [99_995, 0]);
    let movements = json!({"criteria": {"expedition": {"eq": order["id"]}}, "sort": [{"field": "quantity"}]});
    let listed =
        world.api.post(&world.api.user, "/api/stock-movement/list", movements).await.expect(200).json();
    let shown: Vec<_> = listed["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| {
            json!([
                m["movementType"],
                m["movementSubType"],
                m["quantity"],
                m["expeditionItem"],
                m["reported"]
            ])
        })
        .collect();
    assert_eq!(
        shown,
        [json!(["out", "completion", 2, id(1), true]), json!(["out", "completion", 3, id(0), true])]
    );
    let whole = world.at("delivered", "2").await;
    assert_eq!((&whole["expeditedCompletely"], &whole["items"][0]["expedited"]), (&json!(true), &json!(1)));
    world.must_hold().await;
    assert_eq!(world.contradictions().await, 0);
}
