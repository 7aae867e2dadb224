//! An order from its creation to its delivery, and the events that its e-shop gets.

use crate::product::MIGRATIONS;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::World;

/// Every event that is to be delivered, in order: its type, whose it is, and its data.
async fn events(world: &World) -> Vec<(String, String, Value)> {
    sqlx::query_as(
        "SELECT e.type, e.entity_id::text, e.data FROM delivery d JOIN event e ON e.id = d.event_id
         WHERE e.type LIKE 'expedition%' ORDER BY (e.data ->> 'version')::int, e.type DESC",
    )
    .fetch_all(&world.owner)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_waits_is_booked_packed_and_delivered_and_its_eshop_is_told(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "*").await;
    let other = world.eshop().await;
    world.webhook(other, "expedition_status_change").await;
    let advice = world.announce("A-1", &[(&world.lamp, 5)]).await;
    let items = json!([{"product": world.lamp, "quantity": 4}, {"product": world.mug, "quantity": 1}]);
    let waits = json!({"items": items, "waitBeforeProcessing": true, "externalId": "shop-1"});
    let order = world.sent("S-1", &waits).await;
    assert_eq!((&order["status"], &order["waitsFor"]), (&json!("waiting_for_goods"), &json!(world.lamp)));
    let reservations = json!({"criteria": {"orderNumber": {"eq": "S-1"}}, "sort": [{"field": "quantity"}]});
    let listed = async || {
        let listed = world.api.post(&world.api.user, "/api/reservation/list", reservations.clone()).await;
        let show = |r: &Value| json!([r["quantity"], r["booked"], r["missing"]]);
        listed.expect(200).json()["results"].as_array().unwrap().iter().map(show).collect::<Vec<_>>()
    };
    assert_eq!(listed().await, [json!([1, 0, 1]), json!([4, 0, 4])]);
    let stock = async || {
        let body = json!({"criteria": {"product": {"eq": world.lamp}}});
        let stock = world.api.post(&world.api.user, "/api/product-stock/list", body).await.expect(200).json();
        let stock = &stock["results"][0];
        json!(
            ["quantity", "booked", "available", "missing", "required", "incoming"].map(|n| stock[n].clone())
        )
    };
    assert_eq!(stock().await, json!([0, 0, 0, 4, 4, 5]));

    world.receive(&advice, &[(0, 3)], false).await.expect(200);
    world.allocate().await;
    assert_eq!(world.read(&order).await["status"], "waiting_for_goods", "whole or not at all");
    assert_eq!(stock().await, json!([3, 0, 3, 4, 1, 2]));
    world.receive(&advice, &[(0, 2)], true).await.expect(200);
    world.allocate().await;
    let booked = world.read(&order).await;
    assert_eq!((&booked["status"], &booked["waitsFor"]), (&json!("stock_ok"), &Value::Null));
    assert_eq!(listed().await, [json!([1, 1, 0]), json!([4, 4, 0])]);
    assert_eq!(stock().await, json!([5, 4, 1, 0, 0, 0]));

    world.act(&order, "process", Value::Null).await.expect(200);
    let parcels = json!([{"extPackageNumber": "1", "extPackageTrackingNumber": "Z1", "trackingUrl": "https://t.example/Z1"}]);
    world.report(&order, json!({"status": "take_out"})).await.expect(200);
    let packed = json!({"status": "waiting_for_the_carrier", "parcels": parcels});
    world.report(&order, packed).await.expect(200);
    assert_eq!(listed().await, Vec::<Value>::new());
    assert_eq!(stock().await, json!([1, 0, 1, 0, 0, 0]));
    let done = world.report(&order, json!({"status": "delivered"})).await.expect(200).json();
    assert_eq!(done["expeditedCompletely"], true);
    let statuses: Vec<_> = done["audits"].as_array().unwrap().iter().map(|a| a["statusTo"].clone()).collect();
    assert_eq!(
        statuses,
        [
            "on_hold",
            "waiting_for_goods",
            "stock_ok",
            "awaiting_processing",
            "take_out",
            "waiting_for_the_carrier",
            "delivered",
        ]
    );

    let events = events(&world).await;
    let shown: Vec<_> = events
        .iter()
        .map(|(kind, entity, data)| {
            assert_eq!(json!(entity), order["id"]);
            assert_eq!((&data["orderNumber"], &data["externalId"]), (&json!("S-1"), &json!("shop-1")));
            assert_eq!((&data["eshop"], &data["organisation"]), (&order["eshop"], &order["organisation"]));
            let kind = kind.trim_start_matches("expedition_").trim_end_matches("_change");
            json!([kind, data["version"], data["fields"]["previousStatus"], data["status"]])
        })
        .collect();
    assert_eq!(
        shown,
        [
            json!(["status", 1, null, "waiting_for_goods"]),
            json!(["status", 2, "waiting_for_goods", "stock_ok"]),
            json!(["booked", 2, null, "stock_ok"]),
            json!(["status", 3, "stock_ok", "awaiting_processing"]),
            json!(["status", 4, "awaiting_processing", "take_out"]),
            json!(["status", 5, "take_out", "waiting_for_the_carrier"]),
            json!(["status", 6, "waiting_for_the_carrier", "delivered"]),
        ]
    );
    assert_eq!(done["version"], 6);
    let fields = &events[5].2["fields"];
    assert_eq!(
        (&fields["trackingNumber"], &fields["trackingUrl"]),
        (&json!("Z1"), &json!("https://t.example/Z1"))
    );
    assert_eq!(fields["parcels"][0]["extPackageNumber"], "1");
    assert_eq!(fields["status"], "waiting_for_the_carrier");
    world.must_hold().await;
    assert_eq!(world.contradictions().await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_event_of_many_items_stays_below_its_limit(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "*").await;
    let items = json!(vec![json!({"product": world.mug, "quantity": 1}); 1_000]);
    let order = world.sent("1", &json!({"items": items})).await;
    assert_eq!(order["items"].as_array().unwrap().len(), 1_000);
    let events = events(&world).await;
    assert_eq!(events.len(), 2);
    for (kind, _, data) in events {
        assert!(data.to_string().len() < 20_000, "{kind}: {}", data.to_string().len());
        assert_eq!((&data["orderNumber"], &data["status"]), (&json!("1"), &json!("awaiting_processing")));
    }
}
