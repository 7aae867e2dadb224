//! Lists of orders, items, reservations and movements (`docs/reference/orders.md#lists`).

use longshore_domain::list::fields::expedition::{ExpeditionStatus, HandoverState};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, World};
use crate::support::strangers;

async fn listed(world: &World, resource: &str, body: Value) -> Value {
    let reply = world.api.post(&world.api.user, &format!("/api/{resource}/list"), body.clone()).await;
    assert_eq!(reply.status.as_u16(), 200, "{body}: {}", reply.text);
    reply.json()
}

/// The numbers of the orders that match.
async fn numbers(world: &World, body: Value) -> Vec<String> {
    let answer = listed(world, "expedition", body).await;
    let results = answer["results"].as_array().unwrap();
    results.iter().map(|order| order["orderNumber"].as_str().unwrap().to_owned()).collect()
}

/// Fields of criteria and of sort that the reference names.
const NAMED: &[&str] = &[
    "eshop.organisation",
    "eshop.organisation.name",
    "carrier.code",
    "carrierService.name",
    "warehouse.name",
    "wms.name",
    "expeditedCompletely",
    "carrierChoice.preference",
    "carrierChoice.at",
    "invoice.name",
    "invoice.originalName",
    "invoice.size",
    "invoice.mimeType",
    "withInvoice",
    "billingCountry.code",
    "deliveryCountry.code",
    "waitsFor",
    "statusSince",
];

#[tokio::test]
async fn orders_are_found_by_what_clients_ask_for() {
    let world = World::new(&strangers().await).await;
    for path in NAMED {
        listed(
            &world,
            "expedition",
            json!({"sort": [{"field": path}], "criteria": {*path: {"null": false}}}),
        )
        .await;
    }
    let dated = json!({"requiredExpeditionDate": "2026-05-31", "deliveryCountry": "SK", "value": 99.5, "carrierService": world.service});
    world.made(world.order_with("A-1", &dated)).await;
    let wants = json!({"items": [{"product": world.lamp, "quantity": 7}, {"product": world.mug, "quantity": 1}], "externalId": "x%y"});
    let waiting = world.sent("B-2", &wants).await;
    let packed = world.at("completion", "C-3").await;
    let item = &packed["items"][0]["id"];
    let left = json!({"status": "delivered", "items": [{"id": item, "expedited": 0}],
                      "parcels": [{"extPackageNumber": "P", "extPackageTrackingNumber": "TRACK-9"}]});
    world.report(&packed, left).await.expect(200);
    let whole = world.at("delivered", "D-4").await;
    let set = json!({"type": "bundle", "childrenProducts": [{"productId": world.mug, "quantity": 1}]});
    let set = world.add("SET", set).await;
    world.made(world.order_with("E-5", &json!({"items": [{"product": set, "quantity": 1}]}))).await;
    for (criteria, expected) in [
        (json!({"billingCountry.code": {"eq": "GB"}}), "ABCDE"),
        (json!({"deliveryCountry.code": {"eq": "SK"}}), "A"),
        (json!({"deliveryCountry.code": {"in": ["SK", "CZ"]}, "billingCountry.code": {"like": "g"}}), "A"),
        (json!({"deliveryCountry": {"neq": "SK"}}), "BCDE"),
        (json!({"requiredExpeditionDate": {"gte": "2026-05-31", "lt": "2026-06-01"}}), "A"),
        (json!({"requiredExpeditionDate": {"null": true}}), "BCDE"),
        (json!({"value": {"gt": 99, "lte": 99.5}}), "A"),
        (json!({"carrier.code": {"eq": world.code}, "carrierService.name": {"like": "parc"}}), "A"),
        (json!({"status": {"in": ["waiting_for_goods", "delivered"]}}), "BCD"),
        (json!({"status": {"like": "goods"}}), "B"),
        (json!({"waitsFor": {"eq": world.lamp}}), "B"),
        (json!({"waitsFor.productSku": {"eq": "LAMP"}}), "B"),
        (json!({"items.product": {"eq": world.lamp}}), "B"),
        (json!({"items.product.productSku": {"eq": "MUG"}}), "ABCDE"),
        (json!({"items.missing": {"gte": 7}}), "B"),
        (json!({"bundles.product": {"eq": set}}), "E"),
        (json!({"parcels.extPackageTrackingNumber": {"eq": "TRACK-9"}}), "C"),
        (json!({"trackingNumber": {"like": "%rack%"}}), "C"),
        (json!({"externalId": {"like": "%x%y%"}}), "B"),
        (json!({"externalId": {"like": "x_y"}}), ""),
        (json!({"orderNumber": {"like": 5}}), "E"),
        (json!({"expeditedCompletely": {"flag": true}}), "D"),
        (json!({"expeditedCompletely": {"flag": false}}), "C"),
        (json!({"eshop.organisation": {"eq": world.api.tenant.organisation}}), "ABCDE"),
        (json!({"statusSince": {"lt": "2026-01-01T00:00:00Z"}}), ""),
        (json!({"orderNumber": {}}), "ABCDE"),
    ] {
        let body = json!({"criteria": criteria, "sort": [{"field": "orderNumber"}]});
        let found: String = numbers(&world, body).await.iter().map(|number| &number[..1]).collect();
        assert_eq!(found, expected, "{criteria}");
    }
    let by_country = json!({"sort": [{"field": "deliveryCountry.code", "order": "desc"}, {"field": "orderNumber"}], "limit": 1});
    assert_eq!(numbers(&world, by_country).await, ["A-1"]);
    // of an item, too
    let items = json!({"criteria": {"expedition.billingCountry.code": {"eq": "GB"}, "expedition.orderNumber": {"eq": "B-2"}}});
    assert_eq!(listed(&world, "expedition-item", items).await["paging"]["total"], 2);
    for path in ["billingCountry.name", "billingCity.code"] {
        let body = json!({"criteria": {path: {"eq": "GB"}}});
        let refused = world.api.post(&world.api.user, "/api/expedition/list", body).await.expect(400);
        assert_eq!(refused.violations(), [format!("criteria.{path} unknown_field")]);
    }

    for (extra, expected) in [
        (json!({"partiallyDelivered": true}), "C"),
        (json!({"partiallyDelivered": false}), "ABCDE"),
        (json!({}), "ABCDE"),
    ] {
        let body = json!({"extra": extra, "sort": [{"field": "orderNumber"}]});
        let found: String = numbers(&world, body).await.iter().map(|number| &number[..1]).collect();
        assert_eq!(found, expected, "{extra}");
    }
    let both = json!({"extra": {"partiallyDelivered": true}, "criteria": {"orderNumber": {"eq": "D-4"}}, "limit": 10});
    assert_eq!(listed(&world, "expedition", both).await["paging"]["total"], 0);
    for (resource, extra, violation) in [
        ("expedition", json!({"partiallyDelivered": "true"}), "extra.partiallyDelivered wrong_type"),
        ("expedition", json!({"partiallyDelivered": null}), "extra.partiallyDelivered wrong_type"),
        ("expedition", json!({"colour": true}), "extra.colour unknown_field"),
        ("expedition", json!(["partiallyDelivered"]), "extra wrong_type"),
        ("product", json!({"partiallyDelivered": true}), "extra unknown_field"),
        ("reservation", json!({}), "extra unknown_field"),
    ] {
        let reply =
            world.api.post(&world.api.user, &format!("/api/{resource}/list"), json!({"extra": extra})).await;
        assert_eq!(reply.expect(400).violations(), [violation]);
    }
    let criteria = json!({"criteria": {"partiallyDelivered": {"flag": true}}});
    let refused = world.api.post(&world.api.user, "/api/expedition/list", criteria).await.expect(400);
    assert_eq!(refused.violations(), ["criteria.partiallyDelivered unknown_field"]);
    let record = world.read(&whole).await;
    assert!(record.get("partiallyDelivered").is_none() && record.get("billingCountry.code").is_none());
    assert_eq!(waiting["billingCountry"], "GB");
}

#[tokio::test]
async fn arrays_are_shown_where_they_are_selected_and_nested_replaces_their_products() {
    let world = World::new(&strangers().await).await;
    let order = world.sent("1", &json!({"carrier": null})).await;
    let plain = &listed(&world, "expedition", json!({"limit": 1})).await["results"][0];
    for name in ["items", "bundles", "parcels", "audits", "errors"] {
        assert!(plain.get(name).is_none(), "{name}");
        let body = json!({"select": [name, "id"], "limit": 1});
        let chosen = &listed(&world, "expedition", body).await["results"][0];
        assert_eq!(chosen, &json!({"id": order["id"], name: order[name]}));
    }
    for (name, shown) in plain.as_object().unwrap() {
        assert_eq!(shown, &order[name], "{name}");
    }
    let body = json!({"select": ["eshop", "warehouse", "carrier", "items"], "nested": true, "limit": 1});
    let nested = &listed(&world, "expedition", body).await["results"][0];
    assert_eq!(nested["eshop"]["id"], order["eshop"]);
    assert_eq!(nested["warehouse"]["id"], order["warehouse"]);
    assert_eq!(nested["carrier"], Value::Null);
    assert_eq!(nested["items"][0]["product"]["productSku"], "MUG");
    let items = json!({"nested": true});
    let item = &listed(&world, "expedition-item", items).await["results"][0];
    assert_eq!(item["expedition"]["orderNumber"], "1");
    assert_eq!(item["product"]["productSku"], "MUG");
    let sent = world.at("awaiting_processing", "2").await;
    let reservation = &listed(&world, "reservation", json!({"nested": true})).await["results"][0];
    assert_eq!(reservation["id"], sent["items"][0]["id"]);
    assert_eq!((&reservation["orderNumber"], &reservation["eshop"]["id"]), (&json!("2"), &sent["eshop"]));
    let plain =
        &listed(&world, "expedition-item", json!({"criteria": {"id": {"eq": sent["items"][0]["id"]}}})).await;
    assert_eq!(plain["results"][0], sent["items"][0]);
}

#[tokio::test]
async fn movements_are_filtered_and_sorted_as_clients_do() {
    let world = World::new(&strangers().await).await;
    let order = world.at("delivered", "1").await;
    for (criteria, total) in [
        (json!({"product": {"eq": world.mug}}), 2),
        (json!({"product.productSku": {"eq": "MUG"}, "movementType": {"eq": "out"}}), 1),
        (json!({"expedition": {"eq": order["id"]}}), 1),
        (json!({"expeditionItem": {"eq": order["items"][0]["id"]}}), 1),
        (json!({"warehouse": {"eq": order["warehouse"]}, "wms": {"eq": order["wms"]}}), 2),
        (json!({"organisation": {"eq": order["organisation"]}}), 2),
        (json!({"movementSubType": {"in": ["new"]}}), 1),
        (json!({"movedAt": {"gte": order["packedAt"]}}), 1),
    ] {
        let body = json!({"criteria": criteria, "sort": [{"field": "movedAt"}]});
        assert_eq!(listed(&world, "stock-movement", body).await["paging"]["total"], total, "{criteria}");
    }
    let body = json!({"criteria": {"movementSubType": {"eq": "announced"}}});
    world.api.post(&world.api.user, "/api/stock-movement/list", body).await.expect(400);
    // announcements and withdrawals are no movements of pieces
    world.announce("A", &[(&world.lamp, 4)]).await;
    assert_eq!(listed(&world, "stock-movement", json!({})).await["paging"]["total"], 2);
}

#[tokio::test]
async fn what_the_service_observes_of_an_order_is_listed_and_sent_each_time() {
    let world = World::new(&strangers().await).await;
    let order = world.at("awaiting_processing", "1").await;
    let observed = ["handover", "waitsFor", "withComplaint", "splitFrom", "backorderOf"];
    let listed = async |body: Value| listed(&world, "expedition", body).await["results"][0].clone();
    let selected = listed(json!({"select": observed})).await;
    let nothing = Value::Null;
    assert_eq!(
        observed.map(|name| &selected[name]),
        [&nothing, &nothing, &json!(false), &nothing, &nothing],
        "{selected}"
    );
    let whole = listed(json!({})).await;
    assert!(observed.iter().all(|name| whole.get(name).is_some()), "{whole}");
    // its hand-over changes without a new version
    let path = super::path(&order, "");
    let reply = world.api.get(&world.api.user, &path).await.expect(200);
    let known = [("if-none-match", reply.header("etag").unwrap())];
    world.api.call_with(&world.api.user, http::Method::GET, &path, Value::Null, &known).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn sql_and_rust_agree_on_what_a_status_means(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    for status in ExpeditionStatus::ALL {
        let found: (bool, bool) = sqlx::query_as("SELECT is_booked($1), is_waiting($1)")
            .bind(status.as_str())
            .fetch_one(&world.owner)
            .await
            .unwrap();
        assert_eq!(found, (status.is_booked(), status.is_waiting()), "{status}");
        for handover in HandoverState::ALL.into_iter().map(Some).chain([None]) {
            let found: bool = sqlx::query_scalar("SELECT is_handed_over($1, $2)")
                .bind(status.as_str())
                .bind(handover.map(HandoverState::as_str))
                .fetch_one(&world.owner)
                .await
                .unwrap();
            assert_eq!(found, status.is_handed_over(handover), "{status}, {handover:?}");
        }
    }
}
