//! Sending: what makes an order incorrect, and what the e-shop and the organisation say of it
//! (`docs/reference/orders.md#creating`).

use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, World};
use crate::support::strangers;

/// `path code value` of each error of an order.
fn errors(order: &Value) -> Vec<String> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let show = |error: &Value| {
        assert!(!text(&error["message"]).is_empty());
        let value = text(&error["parameters"]["{{ value }}"]);
        format!("{} {} {value}", text(&error["propertyPath"]), text(&error["code"])).trim().to_owned()
    };
    order["errors"].as_array().map(|errors| errors.iter().map(show).collect()).unwrap_or_default()
}

#[tokio::test]
async fn all_that_is_missing_is_found_at_once_when_it_is_sent() {
    let world = World::new(&strangers().await).await;
    let nothing = json!({
        "carrier": null, "billingLastName": null, "billingStreet": null, "billingCity": "  ", "billingZip": null,
        "billingCountry": null, "cod": true,
    });
    let held = world.made(world.order_with("1", &nothing)).await;
    assert_eq!((&held["status"], &held["errors"]), (&json!("on_hold"), &Value::Null));
    let order = world.act(&held, "send", Value::Null).await.expect(200).json();
    assert_eq!(order["status"], "incorrect");
    let address = [
        "deliveryLastName required",
        "deliveryStreet required",
        "deliveryCity required",
        "deliveryZip required",
        "deliveryCountry required",
    ];
    assert_eq!(errors(&order), [&address[..], &["codValue required", "carrier no_carrier"]].concat());
    assert_eq!(order["addressValidationExecuted"], true);

    // errors stay until it is sent again, also once they are corrected
    let put = json!({"ignoreAddressValidation": true, "codValue": 0, "carrier": world.carrier});
    let corrected = world.act(&order, "", put).await.expect(200).json();
    assert_eq!(corrected["errors"], order["errors"]);
    assert_eq!(corrected["status"], "incorrect");
    let sent = world.act(&order, "send", Value::Null).await.expect(200).json();
    assert_eq!((&sent["status"], &sent["errors"]), (&json!("awaiting_processing"), &Value::Null));
    assert_eq!(sent["addressValidationExecuted"], false);
    world.must_hold().await;
}

#[tokio::test]
async fn a_company_stands_for_a_name_and_the_organisation_may_ignore_addresses() {
    let world = World::new(&strangers().await).await;
    let order = world.sent("1", &json!({"billingLastName": null, "billingCompany": "Harbour"})).await;
    assert_eq!(order["status"], "awaiting_processing");
    let elsewhere = json!({"deliveryLastName": "Lovelace"});
    let order = world.sent("2", &elsewhere).await;
    assert_eq!(errors(&order).len(), 4, "the billing address does not count: {order}");
    let path = format!("/api/organisation/{}", world.api.tenant.organisation);
    let put = json!({"ignoreAddressValidation": true});
    world.api.put(&world.api.superadmin, &path, put).await.expect(200);
    let order = world.act(&order, "send", Value::Null).await.expect(200).json();
    assert_eq!(order["status"], "awaiting_processing");
}

#[tokio::test]
async fn what_is_no_longer_active_or_stocked_is_named_with_its_value() {
    let world = World::new(&strangers().await).await;
    let part = world.add("PART", json!({})).await;
    let set = json!({"type": "bundle", "childrenProducts": [{"productId": part, "quantity": 2}]});
    let set = world.add("SET", set).await;
    let members = json!({
        "carrierService": world.service,
        "items": [{"product": world.mug, "quantity": 1}, {"product": world.lamp, "quantity": 1}, {"product": set, "quantity": 1}],
    });
    let order = world.made(world.order_with("1", &members)).await;
    let switch = |product: &str, to: &str| format!("/api/product/{to}/{product}");
    world.api.put(&world.api.user, &switch(&world.lamp, "deactivate"), Value::Null).await.expect(204);
    world.api.put(&world.api.user, &switch(&set, "deactivate"), Value::Null).await.expect(204);
    let carrier = format!("/api/carrier/{}", world.carrier);
    world.api.put(&world.api.superadmin, &carrier, json!({"active": false})).await.expect(200);
    // nothing of it is refused where it is sent back as it was read
    assert_eq!(world.act(&order, "", order.clone()).await.expect(200).json(), order);
    let sent = world.act(&order, "send", Value::Null).await.expect(200).json();
    let expected = [
        format!("carrier inactive {}", world.carrier),
        format!("items[1].product inactive {}", world.lamp),
        // a part is sold where its bundle is, which is what was ordered
        format!("items[2].product inactive {set}"),
    ];
    assert_eq!(errors(&sent), expected);
    // what it says can be read from the event, too
    assert_eq!(sent["items"][0]["missing"], Value::Null);

    world.api.put(&world.api.superadmin, &carrier, json!({"active": true})).await.expect(200);
    world.api.put(&world.api.user, &switch(&world.lamp, "activate"), Value::Null).await.expect(204);
    world.api.put(&world.api.user, &switch(&set, "activate"), Value::Null).await.expect(204);
    let virtually = json!({"type": "virtual"});
    world.put(&world.lamp, virtually).await.expect(200);
    let sent = world.act(&order, "send", Value::Null).await.expect(200).json();
    assert_eq!(errors(&sent), [format!("items[1].product not_stocked {}", world.lamp)]);
    world.must_hold().await;
}

#[tokio::test]
async fn whether_it_waits_is_said_by_the_order_or_else_by_the_eshop_at_that_moment() {
    let world = World::new(&strangers().await).await;
    let eshop = format!("/api/eshop/{}", world.api.tenant.eshop);
    let mut number = 0;
    for (of_eshop, of_order, expected) in [
        (false, Value::Null, "awaiting_processing"),
        (false, json!(true), "stock_ok"),
        (true, Value::Null, "stock_ok"),
        (true, json!(false), "awaiting_processing"),
        (true, json!(true), "stock_ok"),
    ] {
        number += 1;
        let body = world.order_with(&number.to_string(), &json!({"waitBeforeProcessing": of_order}));
        // the setting counts when it is sent, not when it is created
        let order = world.made(body).await;
        let put = json!({"waitBeforeProcessing": of_eshop});
        world.api.put(&world.api.superadmin, &eshop, put).await.expect(200);
        let sent = world.act(&order, "send", Value::Null).await.expect(200).json();
        assert_eq!(sent["status"], expected, "{of_eshop} {of_order}");
    }
    // it counts, too, for an order that waited for goods
    let waits = json!({"items": [{"product": world.lamp, "quantity": 3}]});
    let order = world.sent("late", &waits).await;
    assert_eq!((&order["status"], &order["waitsFor"]), (&json!("waiting_for_goods"), &json!(world.lamp)));
    assert_eq!(order["items"][0]["missing"], 3);
    world.stock_up(&world.lamp, 3).await;
    world.allocate().await;
    assert_eq!(world.read(&order).await["status"], "stock_ok");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_create_that_sends_is_one_version_with_two_records_of_the_audit(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "*").await;
    let order = world.sent("1", &json!({"note": "hush-7", "billingPhone": "hush-8"})).await;
    assert_eq!(order["version"], 1);
    let audits: Vec<_> = order["audits"].as_array().unwrap().iter().map(|a| a["statusTo"].clone()).collect();
    assert_eq!(audits, ["on_hold", "awaiting_processing"]);
    let events: Vec<(String, Value)> =
        sqlx::query_as("SELECT type, data FROM event WHERE entity_id = $1::uuid ORDER BY type DESC")
            .bind(order["id"].as_str().unwrap())
            .fetch_all(&world.owner)
            .await
            .unwrap();
    let kinds: Vec<_> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["expedition_status_change", "expedition_booked_change"]);
    let (status, booked) = (&events[0].1, &events[1].1);
    assert_eq!(status["fields"], json!({"status": "awaiting_processing", "previousStatus": null}));
    let item = json!({
        "id": order["items"][0]["id"], "product": world.mug, "productSku": "MUG", "quantity": 1, "booked": 1, "missing": 0,
    });
    assert_eq!(booked["fields"], json!({"items": [item]}));
    assert_eq!((&status["version"], &booked["version"]), (&json!(1), &json!(1)));
    let hushed = "SELECT (SELECT count(*) FROM event WHERE data::text LIKE '%hush-%')
                       + (SELECT count(*) FROM audit WHERE changes::text LIKE '%hush-%')";
    assert_eq!(world.count(hushed).await, 0);
}
