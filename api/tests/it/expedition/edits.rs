//! Changing and deleting (`docs/reference/orders.md#changing`).

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, STATUSES, World};
use crate::support::strangers;

#[tokio::test]
async fn a_record_that_is_sent_back_changes_nothing_in_any_status_that_takes_it() {
    let world = World::new(&strangers().await).await;
    for (number, status) in ["on_hold", "incorrect"].into_iter().enumerate() {
        let order = world.at(status, &number.to_string()).await;
        assert_eq!(world.act(&order, "", order.clone()).await.expect(200).json(), order);
        // the same with what a client leaves out or knows in milliseconds
        let mut known = order.clone();
        let text = known["createdAt"].as_str().unwrap().to_owned();
        known["createdAt"] = json!(format!("{}Z", &text[..23]));
        known["version"] = json!(99);
        assert_eq!(world.act(&order, "", known).await.expect(200).json(), order);
        for (field, value) in [
            ("status", json!("delivered")),
            ("id", json!(uuid::Uuid::nil())),
            ("user", json!(uuid::Uuid::nil())),
            ("parcels", json!([{"extPackageNumber": "1"}])),
            ("bundles", json!([{}])),
            ("countOfItems", json!(9)),
            ("packedAt", json!("2026-01-01T00:00:00Z")),
            ("errors", json!([])),
        ] {
            let refused = world.act(&order, "", json!({field: value})).await.expect(400);
            assert_eq!(refused.violations(), [format!("{field} read_only")]);
        }
    }
}

#[tokio::test]
async fn a_record_that_was_read_earlier_is_taken_whatever_happened_since() {
    let world = World::new(&strangers().await).await;
    let read = world.made(world.order_with("1", &json!({"carrier": null}))).await;
    // it was sent, found incorrect, corrected, sent and held
    let incorrect = world.act(&read, "send", Value::Null).await.expect(200).json();
    assert_eq!(incorrect["status"], "incorrect");
    let back = world.act(&read, "", read.clone()).await.expect(200).json();
    assert_eq!(back, incorrect, "nothing that a body says has changed");
    world.act(&read, "", json!({"carrier": world.carrier})).await.expect(200);
    assert_eq!(
        world.act(&read, "send", Value::Null).await.expect(200).json()["status"],
        "awaiting_processing"
    );
    world.act(&read, "rollback", Value::Null).await.expect(200);
    for earlier in [&read, &incorrect] {
        let back = world.act(&read, "", earlier.clone()).await.expect(200).json();
        // its items are the same, and changed when its status did
        let mut items = read["items"].clone();
        items[0]["changedAt"] = back["statusSince"].clone();
        assert_eq!(
            (&back["status"], &back["carrier"], &back["items"]),
            (&json!("on_hold"), &Value::Null, &items)
        );
    }
    // its stamps are passed over whatever they say
    let stamps =
        json!({"modifiedAt": "2020-01-01T00:00:00Z", "statusSince": null, "audits": [], "waitsFor": "x"});
    world.act(&read, "", stamps).await.expect(200);
    // a record of another order is not written over it
    let other = world.made(world.order_with("2", &json!({"carrier": null}))).await;
    let refused = world.act(&read, "", other).await.expect(400).violations();
    assert!(refused.contains(&"id read_only".to_owned()), "{refused:?}");
    world.must_hold().await;
}

#[tokio::test]
async fn items_that_are_given_replace_them_all() {
    let world = World::new(&strangers().await).await;
    let card = world.add("CARD", json!({"type": "virtual"})).await;
    let pair = json!({"type": "bundle", "childrenProducts": [{"productId": world.mug, "quantity": 2}]});
    let pair = world.add("PAIR", pair).await;
    let order =
        world.made(world.order_with("1", &json!({"items": [{"productSku": "MUG", "quantity": 2}]}))).await;
    let mut version = 1;
    let put = async |items: Value, version: &mut i64, changes: bool| {
        let now = world.act(&order, "", json!({"items": items})).await.expect(200).json();
        *version += i64::from(changes);
        assert_eq!(now["version"], *version, "{items}");
        let of = |i: &Value| json!([i["productSku"], i["quantity"], i["bundle"], i["lot"]]);
        let shown: Vec<_> = now["items"].as_array().unwrap().iter().map(of).collect();
        (Value::Array(shown), now)
    };
    // by id or by SKU, the same is the same
    let (_, now) = put(json!([{"product": world.mug, "quantity": 2}]), &mut version, false).await;
    assert_eq!(now["items"], order["items"]);
    let (_, now) =
        put(json!([{"productSku": "MUG", "quantity": 2, "lifo": "false"}]), &mut version, false).await;
    assert_eq!(now["items"], order["items"]);
    let (shown, now) =
        put(json!([{"productSku": "MUG", "quantity": 2, "lot": "L"}]), &mut version, true).await;
    assert_eq!(shown, json!([["MUG", 2, null, "L"]]));
    assert_ne!(now["items"][0]["id"], order["items"][0]["id"]);
    // the same pieces, as a bundle
    let (shown, now) = put(json!([{"product": pair, "quantity": 1}]), &mut version, true).await;
    assert_eq!(shown, json!([["MUG", 2, pair, null]]));
    assert_eq!(now["bundles"], json!([{"product": pair, "quantity": 1, "items": [now["items"][0]["id"]]}]));
    put(json!([{"product": pair, "quantity": 1}]), &mut version, false).await;
    // the same pieces, with a virtual product
    let with_card = json!([{"product": pair, "quantity": 1}, {"product": card, "quantity": 1}]);
    let (_, now) = put(with_card.clone(), &mut version, true).await;
    assert_eq!(now["removedVirtualProducts"], json!([{"productId": card, "quantity": 1}]));
    put(with_card, &mut version, false).await;
    let (shown, now) = put(
        json!([{"productSku": "LAMP", "quantity": 1}, {"productSku": "MUG", "quantity": 1}]),
        &mut version,
        true,
    )
    .await;
    assert_eq!(shown, json!([["LAMP", 1, null, null], ["MUG", 1, null, null]]));
    assert_eq!((&now["bundles"], &now["removedVirtualProducts"]), (&json!([]), &json!([])));
    assert_eq!((&now["countOfItems"], &now["sumOfQuantity"]), (&json!(2), &json!(2)));
    let (action, changes) = world.audited(order["id"].as_str().unwrap()).await;
    assert_eq!(action, "expedition.update");
    assert_eq!(changes["items"][1][0], json!({"product": world.lamp, "quantity": 1}));
    // what was replaced is booked by what it is now
    let sent = world.act(&order, "send", Value::Null).await.expect(200).json();
    assert_eq!((&sent["status"], &sent["waitsFor"]), (&json!("waiting_for_goods"), &json!(world.lamp)));
    world.must_hold().await;
}

#[tokio::test]
async fn references_change_in_any_status_and_nothing_else_does() {
    let world = World::new(&strangers().await).await;
    let order = world.at("delivered", "1").await;
    let patch = async |body: Value| world.on(Method::PATCH, &order, "", body).await;
    let body = json!({"ref1": "a", "ref2": "b", "ref3": "c", "externalId": "E"});
    let now = patch(body).await.expect(200).json();
    assert_eq!([&now["ref1"], &now["ref2"], &now["ref3"], &now["externalId"]], ["a", "b", "c", "E"]);
    assert!(now["modifiedAt"].as_str() > order["modifiedAt"].as_str());
    let again = patch(json!({"ref1": "a"})).await.expect(200).json();
    assert_eq!(again, now);
    assert_eq!(patch(json!({})).await.expect(200).json(), now);
    let emptied = patch(json!({"externalId": "", "ref3": ""})).await.expect(200).json();
    assert_eq!([&emptied["externalId"], &emptied["ref3"]], [&Value::Null; 2]);
    for (body, violation) in [
        (json!({"note": "x"}), "note unknown_field"),
        (json!({"ref1": 1}), "ref1 wrong_type"),
        (json!({"ref1": "x".repeat(256)}), "ref1 invalid_length"),
        (json!({"externalId": "x".repeat(256)}), "externalId invalid_length"),
        (json!({"status": "canceled"}), "status unknown_field"),
    ] {
        assert_eq!(patch(body).await.expect(400).violations(), [violation]);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_a_refused_change_advises_is_possible(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let fragile = || json!({"fragile": true});
    for (number, status) in STATUSES.into_iter().enumerate().skip(2) {
        let order = world.at(status, &number.to_string()).await;
        let refused = world.act(&order, "", fragile()).await.expect(400);
        assert_eq!(refused.violations(), ["status wrong_status"]);
        let detail = refused.json()["detail"].clone();
        let detail =
            detail.as_str().unwrap().strip_prefix(&format!("status is {status}: ")).unwrap().to_owned();
        println!("{status}: {detail}");
        if detail == "hold it first (PUT …/rollback)" {
            world.act(&order, "rollback", Value::Null).await.expect(200);
            world.act(&order, "", fragile()).await.expect(200);
        } else if detail == "it has ended: delete it, or use another number" {
            world.on(Method::DELETE, &order, "", Value::Null).await.expect(204);
        } else {
            assert!(detail.ends_with("only ref1–3 and externalId can be changed"), "{detail}");
            world.act(&order, "rollback", Value::Null).await.expect(409);
            let body = json!({"ref1": "a", "ref2": "b", "ref3": "c", "externalId": status});
            world.on(Method::PATCH, &order, "", body).await.expect(200);
        }
    }
    // what the warehouse had is kept
    let order = world.at("waiting_for_cancel", "kept").await;
    let canceled =
        world.report(&order, json!({"status": "canceled", "force": true})).await.expect(200).json();
    let detail = world.act(&canceled, "", fragile()).await.expect(400).json()["detail"].clone();
    assert_eq!(detail, "status is canceled: it has ended: use another number");
    world.on(Method::DELETE, &canceled, "", Value::Null).await.expect(409);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_personal_is_masked_in_the_audit(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let order = world.made(world.order("1", &world.mug)).await;
    let put = json!({
        "note": "hush-1", "carrierNote": "hush-2", "billingFirstName": "hush-3", "billingZip": 90_001, "billingEmail": "hush-4@example.com",
        "carrierPickupPlaceCode": "hush-5", "externalCarrierPickupPlaceCode": "hush-6", "billingCountry": "CZ",
        "billingRegistrationNumber": "hush-7", "billingVatNumber": "hush-8",
        "carrierOptions": {"recipientIdentificationNumber": "hush-9"}, "ref1": "shown",
    });
    world.act(&order, "", put).await.expect(200);
    let (_, changes) = world.audited(order["id"].as_str().unwrap()).await;
    assert_eq!(changes["note"], json!([null, "***"]));
    assert_eq!(changes["billingZip"], json!(["***", "***"]));
    assert_eq!(changes["deliveryZip"], json!(["***", "***"]));
    assert_eq!(changes["billingCountry"], json!(["GB", "CZ"]));
    assert_eq!(changes["ref1"], json!([null, "shown"]));
    let hushed = "SELECT (SELECT count(*) FROM event WHERE data::text ~ 'hush-|90001')
                       + (SELECT count(*) FROM audit WHERE changes::text ~ 'hush-|90001')";
    assert_eq!(world.count(hushed).await, 0);
}

/// The statuses of an order that was sent and that no warehouse has.
const SENT: [&str; 4] = ["awaiting_reservation", "waiting_for_goods", "stock_ok", "awaiting_processing"];

/// A new address, and what else no booking depends on.
fn amendment(number: &str) -> Value {
    json!({
        "billingStreet": "Mill Road", "deliveryStreet": "Hill Road", "deliveryCountry": "IE", "note": "ring twice",
        "carrierNote": "3rd floor", "carrierPickupPlaceCode": "P1", "deliveryMethod": "box", "ref1": "a", "externalId": number,
        "requiredExpeditionDate": "2030-01-31",
    })
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_was_sent_gets_a_new_address_and_keeps_its_pieces(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    for status in SENT {
        let order = world.at(status, status).await;
        let now = world.act(&order, "", amendment(status)).await.expect(200).json();
        for (field, value) in amendment(status).as_object().unwrap() {
            assert_eq!(&now[field], value, "{status}");
        }
        assert_eq!(now["differentDeliveryAddress"], true);
        for kept in ["status", "statusSince", "items", "waitsFor", "reservationPaused", "errors", "audits"] {
            assert_eq!(now[kept], order[kept], "{status} {kept}");
        }
        assert_eq!(now["version"], order["version"].as_i64().unwrap() + 1);
        let (action, changes) = world.audited(order["id"].as_str().unwrap()).await;
        assert_eq!(
            (action.as_str(), &changes["deliveryStreet"]),
            ("expedition.update", &json!(["***", "***"]))
        );
        // a record that was read, with another street
        let mut read = now.clone();
        read["deliveryStreet"] = json!("Long Road");
        let again = world.act(&order, "", read).await.expect(200).json();
        assert_eq!((&again["deliveryStreet"], &again["items"]), (&json!("Long Road"), &order["items"]));
        // anything else is for an order that is held
        for other in [
            json!({"fragile": true}),
            json!({"value": 11}),
            json!({"priority": 9}),
            json!({"deliveryCost": 1}),
            json!({"items": [{"product": world.mug, "quantity": 7}]}),
        ] {
            let mut body = json!({"deliveryStreet": "Lost Road"});
            body.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
            let refused = world.act(&order, "", body).await.expect(400);
            assert_eq!(refused.violations(), ["status wrong_status"], "{status} {other}");
            assert_eq!(
                refused.json()["detail"],
                format!("status is {status}: hold it first (PUT …/rollback)")
            );
        }
        assert_eq!(world.read(&order).await, again);
    }
    world.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_would_make_an_order_incorrect_is_refused_and_changes_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    for (number, status) in SENT.into_iter().enumerate() {
        let order = world.at(status, &number.to_string()).await;
        for (body, violations) in [
            (json!({"billingStreet": null}), vec!["deliveryStreet required"]),
            (
                json!({"billingCity": " ", "billingZip": ""}),
                vec!["deliveryCity required", "deliveryZip required"],
            ),
            (json!({"billingLastName": null}), vec!["deliveryLastName required"]),
            (json!({"carrier": null}), vec!["carrier no_carrier"]),
            (json!({"carrier": uuid::Uuid::nil()}), vec!["carrier unknown_reference"]),
            (json!({"billingCountry": "Elbonia"}), vec!["billingCountry invalid_value"]),
        ] {
            let refused = world.act(&order, "", body.clone()).await.expect(400);
            if body["billingCountry"].is_null() {
                assert_eq!(refused.violations(), violations, "{status} {body}");
            }
            assert_eq!(world.read(&order).await, order, "{status} {body}");
        }
    }
    world.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_a_warehouse_may_have_is_not_changed(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    for (number, status) in
        STATUSES.into_iter().enumerate().skip(2).filter(|(_, status)| !SENT.contains(status))
    {
        let order = world.at(status, &number.to_string()).await;
        let refused = world.act(&order, "", json!({"deliveryStreet": "Hill Road"})).await.expect(400);
        assert_eq!(refused.violations(), ["status wrong_status"], "{status}");
        assert_eq!(world.read(&order).await, order, "{status}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_whose_street_changes_a_thousand_times_never_loses_its_piece_to_one_that_waits(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.stock_up(&world.lamp, 1).await;
    let lamp = json!({"items": [{"product": world.lamp, "quantity": 1}]});
    let holder = world.sent("holder", &lamp).await;
    let waits = world.sent("waits", &lamp).await;
    assert_eq!(
        (&holder["status"], &waits["status"]),
        (&json!("awaiting_processing"), &json!("waiting_for_goods"))
    );
    for number in 0..1_000 {
        let street = json!({"deliveryStreet": format!("{number} Quay Street")});
        let now = world.act(&holder, "", street).await.expect(200).json();
        assert_eq!((&now["status"], &now["items"][0]["booked"]), (&json!("awaiting_processing"), &json!(1)));
        if number % 100 == 0 {
            world.allocate().await;
        }
    }
    world.allocate().await;
    assert_eq!(world.read(&waits).await["status"], "waiting_for_goods");
    assert_eq!(world.read(&holder).await["version"], holder["version"].as_i64().unwrap() + 1_000);
    world.must_hold().await;
}
