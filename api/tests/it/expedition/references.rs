//! What an order refers to, and what is unique (`docs/reference/orders.md#creating`, `#bundles`).

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, PATH, World, path};
use crate::support::strangers;

#[tokio::test]
async fn unknown_and_foreign_references_are_named() {
    let world = World::new(&strangers().await).await;
    let (stranger, theirs) = world.stranger().await;
    let carrier = json!({"name": "Theirs", "code": 8, "organisations": [stranger.organisation]});
    let carrier = world.api.post(&world.api.superadmin, "/api/carrier", carrier).await.expect(201).json();
    let other = json!({"name": "Other", "code": 9, "organisations": [world.api.tenant.organisation]});
    let other = world.api.post(&world.api.superadmin, "/api/carrier", other).await.expect(201).json();
    let unsold = world.add("UNSOLD", json!({"active": false})).await;
    let elsewhere = world.eshop().await;
    let elsewhere = world.add("ELSEWHERE", json!({"eshops": [elsewhere]})).await;
    let stored = world.made(world.order("stored", &world.mug)).await;
    let unknown = json!(Uuid::nil());
    for (members, violation) in [
        (json!({"eshop": unknown}), "eshop unknown_reference"),
        (json!({"eshop": stranger.eshop}), "eshop unknown_reference"),
        (json!({"warehouse": unknown}), "warehouse unknown_reference"),
        (json!({"warehouse": stranger.warehouse}), "warehouse unknown_reference"),
        (json!({"wms": unknown}), "wms unknown_reference"),
        (json!({"wms": stranger.wms}), "wms unknown_reference"),
        (json!({"carrier": unknown}), "carrier unknown_reference"),
        (json!({"carrier": carrier["id"]}), "carrier unknown_reference"),
        (json!({"carrierService": unknown}), "carrierService unknown_reference"),
        (json!({"carrier": null, "carrierService": world.service}), "carrierService not_allowed"),
        (
            json!({"carrier": other["id"], "carrierService": world.service}),
            "carrierService unknown_reference",
        ),
        (json!({"items": [{"product": unknown, "quantity": 1}]}), "items[0].product unknown_reference"),
        (json!({"items": [{"product": theirs, "quantity": 1}]}), "items[0].product unknown_reference"),
        (
            json!({"items": [{"productSku": "theirs", "quantity": 1}]}),
            "items[0].productSku unknown_reference",
        ),
        (json!({"items": [{"productSku": "mug", "quantity": 1}]}), "items[0].productSku unknown_reference"),
        (json!({"items": [{"product": unsold, "quantity": 1}]}), "items[0].product inactive"),
        (json!({"items": [{"productSku": "ELSEWHERE", "quantity": 1}]}), "items[0].productSku inactive"),
        (json!({"items": [{"product": elsewhere, "quantity": 1}]}), "items[0].product inactive"),
        // two names of one product that contradict each other
        (
            json!({"items": [{"product": world.mug, "productSku": "LAMP", "quantity": 1}]}),
            "items[0].productSku unknown_reference",
        ),
    ] {
        let refused = world.place(world.order_with("1", &members)).await.expect(400);
        assert_eq!(refused.violations(), [violation], "{members}");
        let refused = world.act(&stored, "", members.clone()).await.expect(400).violations();
        let code = if violation.starts_with("eshop") { "eshop not_allowed" } else { violation };
        assert_eq!(refused, [code], "{members}");
    }
    for (field, value) in [("eshop", "required"), ("orderNumber", "required")] {
        let mut body = world.order("1", &world.mug);
        body.as_object_mut().unwrap().remove(field);
        assert_eq!(world.place(body).await.expect(400).violations(), [format!("{field} {value}")]);
    }
    // what is not there is found with what is wrong otherwise
    let members = json!({"value": -1, "carrier": unknown, "items": [{"product": unknown, "quantity": -1}]});
    let refused = world.place(world.order_with("1", &members)).await.expect(400).violations();
    assert!(
        refused.contains(&"value out_of_range".to_owned())
            && refused.contains(&"carrier unknown_reference".to_owned())
    );
    assert_eq!(world.read(&stored).await, stored);
}

#[tokio::test]
async fn what_a_foreign_carrier_has_is_not_told() {
    let world = World::new(&strangers().await).await;
    let (stranger, _) = world.stranger().await;
    let code = world.code + 1_000_000;
    let carrier = json!({"name": "Theirs", "code": code, "organisations": [stranger.organisation]});
    let carrier = world.api.post(&world.api.superadmin, "/api/carrier", carrier).await.expect(201).json();
    let service = json!({"name": "Parcel", "code": 1, "carrier": carrier["id"]});
    let service =
        world.api.post(&world.api.superadmin, "/api/carrier-service", service).await.expect(201).json();
    let stored = world.made(world.order_with("stored", &json!({"carrierService": world.service}))).await;
    for (theirs, none) in [
        (json!({"carrier": carrier["id"]}), json!({"carrier": Uuid::from_u128(1)})),
        (
            json!({"carrier": carrier["id"], "carrierService": service["id"]}),
            json!({"carrier": Uuid::from_u128(1), "carrierService": service["id"]}),
        ),
        (json!({"carrierService": service["id"]}), json!({"carrierService": Uuid::from_u128(1)})),
    ] {
        for method in [Method::PUT, Method::PATCH, Method::POST] {
            let answer = async |members: &Value| {
                if method == Method::POST {
                    return world.place(world.order_with("new", members)).await.expect(400).violations();
                }
                world.on(method.clone(), &stored, "", members.clone()).await.expect(400).violations()
            };
            assert_eq!(answer(&theirs).await, answer(&none).await, "{method} {theirs}");
        }
    }
    assert_eq!(world.read(&stored).await, stored);
}

#[tokio::test]
async fn a_malformed_item_hides_no_unknown_product() {
    let world = World::new(&strangers().await).await;
    let stored = world.made(world.order("stored", &world.mug)).await;
    let unknown = Uuid::nil();
    let items = json!({"items": [
        {"product": unknown, "quantity": 1},
        {"product": world.mug, "quantity": -1},
        {"product": "x", "quantity": 1},
        {"product": unknown, "quantity": "2", "colour": "red"},
        "mug",
        {"productSku": "NONE", "quantity": 1, "lot": 7},
        {"product": world.mug, "quantity": 1},
    ]});
    let expected = [
        "items[1].quantity out_of_range",
        "items[2].product invalid_id",
        "items[3].quantity wrong_type",
        "items[3].colour unknown_field",
        "items[4] wrong_type",
        "items[5].lot wrong_type",
        "items[0].product unknown_reference",
        "items[3].product unknown_reference",
        "items[5].productSku unknown_reference",
    ];
    let placed = world.place(world.order_with("1", &items)).await.expect(400);
    assert_eq!(placed.violations(), expected);
    let changed = world.act(&stored, "", items).await.expect(400);
    assert_eq!(changed.violations(), expected);
    // what belongs to a malformed reference is judged when that is right
    for (members, violation) in [
        (json!({"warehouse": "x", "wms": unknown}), "warehouse invalid_id"),
        (json!({"carrier": "x", "carrierService": world.service}), "carrier invalid_id"),
    ] {
        let placed = world.place(world.order_with("1", &members)).await.expect(400);
        assert_eq!(placed.violations(), [violation], "{members}");
        assert_eq!(world.act(&stored, "", members).await.expect(400).violations(), [violation]);
    }
    let members = json!({"eshop": "x", "items": [{"product": unknown, "quantity": -1}]});
    let placed = world.place(world.order_with("1", &members)).await.expect(400);
    let mut violations = placed.violations();
    violations.sort();
    assert_eq!(violations, ["eshop invalid_id", "items[0].quantity out_of_range"]);
    assert_eq!(world.read(&stored).await, stored);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn numbers_and_external_ids_are_unique_in_the_eshop(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let first = world.made(world.order_with("1", &json!({"externalId": "E"}))).await;
    let refused = world.place(world.order_with("1", &json!({"externalId": "E"}))).await.expect(400);
    assert_eq!(refused.violations(), ["orderNumber already_taken", "externalId already_taken"]);
    let parameters = &refused.json()["violations"][0]["parameters"];
    assert_eq!(parameters, &json!({"{{ value }}": "1", "{{ id }}": first["id"]}));
    // a number is case-sensitive; another e-shop has numbers of its own
    world.made(world.order("a", &world.mug)).await;
    world.made(world.order("A", &world.mug)).await;
    let second = world.eshop().await;
    world.execute("UPDATE eshop SET default_warehouse_id = (SELECT id FROM warehouse LIMIT 1) WHERE default_warehouse_id IS NULL").await;
    world.put(&world.mug, json!({"eshops": [world.api.tenant.eshop, second]})).await.expect(200);
    world.made(world.order_with("1", &json!({"eshop": second, "externalId": "E"}))).await;

    let other = world.made(world.order("2", &world.mug)).await;
    for method in [Method::PUT, Method::PATCH] {
        let refused = world.on(method, &other, "", json!({"externalId": "E"})).await.expect(400);
        assert_eq!(refused.violations(), ["externalId already_taken"]);
    }
    // its own is no duplicate; what never changes may be said again
    let same = json!({"externalId": "E", "orderNumber": "1", "eshop": first["eshop"]});
    assert_eq!(world.act(&first, "", same).await.expect(200).json(), first);
    let moved = json!({"orderNumber": "3", "eshop": second});
    let mut refused = world.act(&first, "", moved).await.expect(400).violations();
    refused.sort();
    assert_eq!(refused, ["eshop not_allowed", "orderNumber not_allowed"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_creates_of_one_number_make_one_order(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let creates = (0..8).map(|_| {
        let mut body = world.order("1", &world.mug);
        body["send"] = json!(true);
        world.place(body)
    });
    let replies = futures::future::join_all(creates).await;
    let made = replies.iter().filter(|reply| reply.status.as_u16() == 201).count();
    assert_eq!(made, 1);
    for reply in replies.into_iter().filter(|reply| reply.status.as_u16() != 201) {
        assert_eq!(reply.expect(400).violations(), ["orderNumber already_taken"]);
    }
    world.must_hold().await;
    assert_eq!(world.count("SELECT held FROM product_stock WHERE held > 0").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_key_makes_a_create_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let key = [("idempotency-key", "order-1")];
    let post = async |body: &Value| {
        world.api.call_with(&world.api.user, Method::POST, PATH, body.clone(), &key).await
    };
    let body = world.order("1", &world.mug);
    let first = post(&body).await.expect(201);
    let second = post(&body).await.expect(201);
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!(second.json(), first.json());
    assert_eq!(second.header("location"), first.header("location"));
    assert_eq!(
        post(&world.order("2", &world.mug)).await.expect(422).json()["code"],
        "idempotency_key_reused"
    );
    assert_eq!(world.count("SELECT count(*) FROM expedition").await, 1);
}

#[tokio::test]
async fn bundles_are_taken_apart_and_virtual_products_put_aside() {
    let world = World::new(&strangers().await).await;
    let card = world.add("CARD", json!({"type": "virtual"})).await;
    let children =
        json!([{"productId": world.mug, "quantity": 2}, {"productId": world.lamp, "quantity": 500_000}]);
    let set = world.add("SET", json!({"type": "bundle", "childrenProducts": children})).await;
    let items = json!([
        {"product": world.mug, "quantity": 1},
        {"product": card, "quantity": 3},
        {"productSku": "SET", "quantity": 2, "ref1": "R", "lifo": true, "lot": "L", "productValue": 5},
    ]);
    let order = world.made(world.order_with("1", &json!({"items": items}))).await;
    let shown: Vec<_> = order["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| {
            json!([
                i["position"],
                i["productSku"],
                i["quantity"],
                i["bundle"],
                i["ref1"],
                i["lifo"],
                i["lot"],
                i["productValue"]
            ])
        })
        .collect();
    assert_eq!(
        Value::Array(shown),
        json!([
            [0, "MUG", 1, null, null, false, null, null],
            [1, "MUG", 4, set, "R", true, null, null],
            [2, "LAMP", 1_000_000, set, "R", true, null, null],
        ])
    );
    let parts = [&order["items"][1]["id"], &order["items"][2]["id"]];
    assert_eq!(order["bundles"], json!([{"product": set, "quantity": 2, "items": parts}]));
    assert_eq!(order["removedVirtualProducts"], json!([{"productId": card, "quantity": 3}]));
    assert_eq!((&order["countOfItems"], &order["countOfSku"]), (&json!(3), &json!(2)));
    // a later change of the bundle changes no order
    let changed = json!({"childrenProducts": [{"productId": world.mug, "quantity": 9}]});
    world.put(&set, changed).await.expect(200);
    assert_eq!(world.read(&order).await, order);
    // the record that was read comes back without its bundle and virtual product, and keeps them
    assert_eq!(world.act(&order, "", order.clone()).await.expect(200).json(), order);

    let many = json!(vec![json!({"product": world.mug, "quantity": 1}); 999]);
    let mut too_many = many.as_array().unwrap().clone();
    too_many.extend([json!({"product": set, "quantity": 1}), json!({"product": world.lamp, "quantity": 1})]);
    let eleven = json!(vec![json!({"product": world.mug, "quantity": 1_000_000}); 11]);
    for (items, violation) in [
        (json!([{"product": card, "quantity": 1}]), "items required"),
        (json!([{"product": set, "quantity": 1_000_000}]), "items[0].quantity out_of_range"),
        (eleven, "items out_of_range"),
        (json!(too_many), "items invalid_count"),
    ] {
        let refused = world.place(world.order_with("2", &json!({"items": items}))).await.expect(400);
        assert_eq!(refused.violations(), [violation]);
    }
    // a thousand items, one of them a bundle of two, are one too many
    let refuse = json!([{"product": set, "quantity": 1}]);
    let wide = json!({"childrenProducts": [{"productId": world.mug, "quantity": 1}, {"productId": world.lamp, "quantity": 1}]});
    world.put(&set, wide).await.expect(200);
    let mut items = many.as_array().unwrap().clone();
    items.extend(refuse.as_array().unwrap().clone());
    let refused = world.place(world.order_with("2", &json!({"items": items}))).await.expect(400);
    assert_eq!(refused.violations(), ["items invalid_count"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_place_is_that_of_the_eshop_or_must_be_named(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.execute("UPDATE warehouse SET default_wms_id = NULL").await;
    let refused = world.place(world.order("1", &world.mug)).await.expect(400);
    assert_eq!(refused.violations(), ["wms required"]);
    world.made(world.order_with("1", &json!({"wms": world.api.tenant.wms}))).await;
    world.execute("UPDATE eshop SET default_warehouse_id = NULL").await;
    let refused = world.place(world.order("2", &world.mug)).await.expect(400);
    assert_eq!(refused.violations(), ["warehouse required"]);
    let named = json!({"warehouse": world.api.tenant.warehouse, "wms": world.api.tenant.wms});
    let order = world.made(world.order_with("2", &named)).await;

    // an order that is there stays where it is, even if its e-shop has left the place
    world.execute("DELETE FROM eshop_warehouse").await;
    world.on(Method::PATCH, &order, "", json!({"ref1": "R"})).await.expect(200);
    world.act(&order, "", json!({"note": "n"})).await.expect(200);
    world.act(&order, "", world.read(&order).await).await.expect(200);
    let refused = world.place(world.order_with("3", &named)).await.expect(400);
    assert_eq!(refused.violations(), ["warehouse unknown_reference"]);
    world.execute("DELETE FROM warehouse_wms").await;
    world.on(Method::PATCH, &order, "", json!({"ref1": "S"})).await.expect(200);
    let read = world.api.get(&world.api.user, &path(&order, "")).await.expect(200).json();
    assert_eq!(read["ref1"], "S");
}

#[tokio::test]
async fn a_connector_gets_the_same_error_for_a_product_of_another_eshop_as_for_one_that_does_not_exist() {
    let world = World::new(&strangers().await).await;
    let other = world.eshop().await;
    let elsewhere = world.add("ELSEWHERE", json!({"eshops": [other]})).await;
    let stored = world.made(world.order("stored", &world.mug)).await;
    let api = &world.api;
    let bound = json!({"name": "c", "role": "connector", "organisation": api.tenant.organisation, "eshop": api.tenant.eshop});
    let token = api.post(&api.superadmin, "/api/access-token", bound).await.expect(201).json();
    let token = token["token"].as_str().unwrap();
    let said = async |item: Value| {
        let items = json!({"items": [item]});
        let created = api.post(token, PATH, world.order_with("1", &items)).await;
        let changed = api.put(token, &path(&stored, ""), items).await;
        [created, changed].map(|reply| {
            let mut violations = reply.expect(400).json()["violations"].clone();
            // the value that was given
            violations[0].as_object_mut().unwrap().remove("parameters");
            let message = violations[0]["message"].as_str().unwrap().replace("ELSEWHERE", "NOWHERE");
            violations[0]["message"] = json!(message);
            violations
        })
    };
    let there = said(json!({"productSku": "ELSEWHERE", "quantity": 1})).await;
    assert_eq!(there, said(json!({"productSku": "NOWHERE", "quantity": 1})).await);
    assert_eq!(there[0][0]["message"], "must be a product of the e-shop: none has the SKU \"NOWHERE\"");
    let there = said(json!({"product": elsewhere, "quantity": 1})).await;
    assert_eq!(there, said(json!({"product": Uuid::nil(), "quantity": 1})).await);
}
