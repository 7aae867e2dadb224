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
        assert_eq!(
            (&back["status"], &back["carrier"], &back["items"]),
            (&json!("on_hold"), &Value::Null, &read["items"])
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
    let note = || json!({"note": "ring twice"});
    for (number, status) in STATUSES.into_iter().enumerate().skip(2) {
        let order = world.at(status, &number.to_string()).await;
        let refused = world.act(&order, "", note()).await.expect(400);
        assert_eq!(refused.violations(), ["status wrong_status"]);
        let detail = refused.json()["detail"].clone();
        let detail =
            detail.as_str().unwrap().strip_prefix(&format!("status is {status}: ")).unwrap().to_owned();
        println!("{status}: {detail}");
        if detail == "hold it first (PUT …/rollback)" {
            world.act(&order, "rollback", Value::Null).await.expect(200);
            world.act(&order, "", note()).await.expect(200);
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
    let detail = world.act(&canceled, "", note()).await.expect(400).json()["detail"].clone();
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
