//! Who may do what, and see what (`docs/reference/roles.md#permissions`).

use http::Method;
use longshore_kernel::access::Role;
use longshore_kernel::ids;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, PATH, STATUSES, World, path};
use crate::support::strangers;

/// Every writing operation on an order, with a body that could be taken.
const WRITES: [(&str, &str); 9] = [
    ("PUT", ""),
    ("PATCH", ""),
    ("PUT", "send"),
    ("PUT", "process"),
    ("PUT", "rollback"),
    ("PATCH", "rebook"),
    ("PATCH", "unbook"),
    ("PUT", "cancel"),
    ("DELETE", ""),
];

#[tokio::test]
async fn viewers_read_and_only_operators_report() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let order = world.at("awaiting_processing", "1").await;
    for (method, operation) in WRITES {
        let body =
            if operation.is_empty() && method != "DELETE" { json!({"ref1": "x"}) } else { Value::Null };
        let reply =
            api.call_with(&api.viewer, method.parse().unwrap(), &path(&order, operation), body, &[]).await;
        assert_eq!(reply.expect(403).json()["code"], "forbidden");
    }
    let report = json!({"status": "take_out"});
    for token in [&api.viewer, &api.user, &api.connector] {
        api.put(token, &path(&order, "status"), report.clone()).await.expect(403);
    }
    api.post(&api.viewer, PATH, world.order("2", &world.mug)).await.expect(403);
    for operation in ["send", "process", "cancel", "rollback"] {
        api.put(&api.viewer, &format!("{PATH}/{operation}"), json!([order["id"]])).await.expect(403);
    }
    let rows = json!({"eshop": api.tenant.eshop, "expeditions": [{"orderNumber": "3", "cancel": true}]});
    api.post(&api.viewer, "/api/partner-integration/eshop/sync/expeditions", rows).await.expect(403);
    assert_eq!(api.get(&api.viewer, &path(&order, "")).await.expect(200).json(), order);
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    api.put(&admin, &path(&order, "status"), report).await.expect(200);
    let connected = api.post(&api.connector, PATH, world.order("4", &world.mug)).await.expect(201).json();
    api.put(&api.connector, &path(&connected, "send"), Value::Null).await.expect(200);
}

#[tokio::test]
async fn what_is_foreign_is_not_there() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let order = world.at("stock_ok", "1").await;
    let waiting = world.at("waiting_for_goods", "2").await;
    world.at("delivered", "3").await;
    let stranger = Tenant::create(&api.services, "Other").await.unwrap();
    let admin = stranger.token(&api.services, Role::Admin).await.unwrap();
    // of the same organisation, and bound to another e-shop
    let second = world.eshop().await;
    let neighbour = Tenant { eshop: second.into(), ..api.tenant.clone() };
    let neighbour = neighbour.eshop_token(&api.services).await.unwrap();
    for token in [&admin, &neighbour] {
        api.get(token, &path(&order, "")).await.expect(404);
        for (method, operation) in WRITES {
            let body =
                if operation.is_empty() && method != "DELETE" { json!({"ref1": "x"}) } else { Value::Null };
            let reply =
                api.call_with(token, method.parse().unwrap(), &path(&order, operation), body, &[]).await;
            assert_eq!(reply.expect(404).json()["code"], "not_found", "{method} {operation}");
        }
        for resource in ["expedition", "expedition-item", "reservation", "stock-movement"] {
            for criteria in [json!({}), json!({"organisation.name": {"like": "Gifts"}})] {
                if resource == "expedition-item" && criteria != json!({}) {
                    continue;
                }
                let body = json!({"criteria": criteria, "limit": 0});
                let listed = api.post(token, &format!("/api/{resource}/list"), body).await.expect(200).json();
                assert_eq!(listed["paging"]["total"], 0, "{resource} {criteria}");
            }
        }
        let create = json!({"eshop": api.tenant.eshop, "orderNumber": "9", "value": 1, "currency": "EUR",
                            "items": [{"product": world.mug, "quantity": 1}]});
        let refused = api.post(token, PATH, create).await.expect(400);
        assert_eq!(refused.violations(), ["eshop unknown_reference"]);
        // the number of a foreign order is not revealed either
        let taken = json!({"eshop": api.tenant.eshop, "orderNumber": "1", "value": 1, "currency": "EUR",
                           "items": [{"product": world.mug, "quantity": 1}]});
        let refused = api.post(token, PATH, taken).await.expect(400);
        assert_eq!(refused.violations(), ["eshop unknown_reference"]);
    }
    api.put(&admin, &path(&order, "status"), json!({"status": "take_out"})).await.expect(404);
    // nor is a product that is in other e-shops only, whether or not it is active
    let create = json!({"eshop": second, "orderNumber": "9", "value": 1, "currency": "EUR",
                        "items": [{"product": world.mug, "quantity": 1}, {"productSku": "none", "quantity": 1}]});
    let refused = api.post(&neighbour, PATH, create).await.expect(400).violations();
    for unknown in ["items[0].product unknown_reference", "items[1].productSku unknown_reference"] {
        assert!(refused.iter().any(|violation| violation == unknown), "{refused:?}");
    }
    // nothing of a foreign order is seen behind a path, by a neighbour who sees the product
    world.put(&world.lamp, json!({"eshops": [api.tenant.eshop, second]})).await.expect(200);
    world.put(&world.mug, json!({"eshops": [api.tenant.eshop, second]})).await.expect(200);
    let total = async |token: &str, resource: &str, criteria: Value| {
        let body = json!({"criteria": criteria, "limit": 0});
        let listed = api.post(token, &format!("/api/{resource}/list"), body).await.expect(200).json();
        listed["paging"]["total"].clone()
    };
    let out = json!({"movementSubType": {"eq": "completion"}});
    assert_eq!(total(&api.user, "stock-movement", out.clone()).await, 1);
    assert_eq!(total(&neighbour, "stock-movement", out).await, 1);
    let named = json!({"expedition.orderNumber": {"eq": "3"}});
    assert_eq!(total(&api.user, "stock-movement", named.clone()).await, 1);
    assert_eq!(total(&neighbour, "stock-movement", named).await, 0);
    let known = json!({"expedition": {"null": false}});
    assert_eq!(total(&api.user, "stock-movement", known.clone()).await, 1);
    assert_eq!(total(&neighbour, "stock-movement", known).await, 0);
    let nested = json!({"criteria": {"movementSubType": {"eq": "completion"}}, "nested": true});
    let listed = api.post(&neighbour, "/api/stock-movement/list", nested).await.expect(200).json();
    assert!(!listed.to_string().contains("Byron"), "{listed}");
    let movement = &listed["results"][0];
    assert_eq!([&movement["expedition"], &movement["expeditionItem"]], [&Value::Null; 2], "{listed}");
    let jobs = json!([order["id"], waiting["id"]]);
    let prefer = [("prefer", "respond-async")];
    let job = api
        .call_with(&neighbour, Method::PUT, &format!("{PATH}/cancel"), jobs, &prefer)
        .await
        .expect(202)
        .json();
    super::bulk::work(&world, &job).await;
    let errors = format!("/api/job/{}/error/list", job["id"].as_str().unwrap());
    let errors = api.post(&neighbour, &errors, json!({})).await.expect(200).json();
    let codes: Vec<_> = errors["results"].as_array().unwrap().iter().map(|e| e["code"].clone()).collect();
    assert_eq!(codes, ["not_found", "not_found"]);
    assert_eq!(world.read(&order).await, order);

    // deleted, it was never there for them
    world.act(&order, "rollback", Value::Null).await.expect(200);
    world.on(Method::DELETE, &order, "", Value::Null).await.expect(204);
    for (token, status) in [(&admin, 404), (&neighbour, 404), (&api.user, 410), (&api.viewer, 410)] {
        api.get(token, &path(&order, "")).await.expect(status);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_program_of_a_wms_sees_what_its_warehouse_was_handed_over(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    // of the same organisation, and of another wms
    let inventory = json!({
        "organisation": api.tenant.organisation, "name": "Quay", "distributionCenter": ids::new_id(),
        "storeKey": "quay", "internalId": "2", "warehouses": [],
    });
    let second = api.post(&api.superadmin, "/api/wms", inventory).await.expect(201).json();
    let body = |role: &str, wms: &Value| json!({"name": "program", "role": role, "wms": wms});
    let own = json!(api.tenant.wms);
    let made =
        api.post(&api.superadmin, "/api/access-token", body("warehouse", &own)).await.expect(201).json();
    assert_eq!((&made["wms"], &made["organisation"]), (&own, &json!(api.tenant.organisation)));
    let program = made["token"].as_str().unwrap().to_owned();
    let other =
        api.post(&api.superadmin, "/api/access-token", body("warehouse", &second["id"])).await.expect(201);
    let other = other.json()["token"].as_str().unwrap().to_owned();
    let stranger = Tenant::create(&api.services, "Other").await.unwrap();
    let foreign = stranger.token(&api.services, Role::Warehouse).await.unwrap();
    let foreign_admin = stranger.token(&api.services, Role::Admin).await.unwrap();

    // what does not go together
    api.post(&api.superadmin, "/api/access-token", body("warehouse", &Value::Null)).await.expect(400);
    api.post(&api.superadmin, "/api/access-token", body("viewer", &own)).await.expect(400);
    let mut elsewhere = body("warehouse", &own);
    elsewhere["organisation"] = json!(stranger.organisation);
    api.post(&api.superadmin, "/api/access-token", elsewhere).await.expect(400);
    let unseen = api.post(&foreign_admin, "/api/access-token", body("warehouse", &own)).await.expect(400);
    assert!(unseen.text.contains("unknown_reference"), "{}", unseen.text);
    // it makes no tokens
    api.post(&program, "/api/access-token", body("warehouse", &own)).await.expect(403);

    let mut orders = Vec::new();
    for (index, status) in STATUSES.iter().enumerate() {
        orders.push(world.at(status, &format!("w{index}")).await);
    }
    let line = [
        "take_out",
        "completion",
        "waiting_for_the_carrier",
        "carrier_picked_up",
        "ready_to_takeover",
        "probably_delivered",
        "delivered",
        "waiting_for_cancel",
    ];
    let listed = async |token: &str, resource: &str, body: Value| {
        api.post(token, &format!("/api/{resource}/list"), body).await.expect(200).json()
    };
    for order in &orders {
        let is_handed_over = line.contains(&order["status"].as_str().unwrap());
        api.get(&program, &path(order, "")).await.expect(if is_handed_over { 200 } else { 404 });
        for token in [&other, &foreign] {
            api.get(token, &path(order, "")).await.expect(404);
        }
    }
    for (resource, total) in [("expedition", 8), ("expedition-item", 8), ("reservation", 3)] {
        assert_eq!(listed(&program, resource, Value::Null).await["paging"]["total"], total, "{resource}");
    }
    assert!(listed(&program, "stock-movement", Value::Null).await["paging"]["total"].as_i64().unwrap() > 0);
    assert_eq!(listed(&program, "stock-advice", Value::Null).await["paging"]["total"], 1);
    for token in [&other, &foreign] {
        for resource in ["expedition", "expedition-item", "reservation", "stock-movement", "stock-advice"] {
            assert_eq!(listed(token, resource, Value::Null).await["paging"]["total"], 0, "{resource}");
        }
    }
    // from the first call on, until the warehouse does not have it
    let ready = orders.iter().find(|order| order["status"] == "awaiting_processing").unwrap();
    for (state, sees) in [
        ("pending", 404),
        ("sending", 200),
        ("accepted", 200),
        ("withdrawing", 200),
        ("refused", 404),
        ("withdrawn", 404),
    ] {
        sqlx::query(
            "INSERT INTO expedition_handover (id, handover_wms_id, handover_state, handover_number, handover_next_attempt_at,
                                              handover_priority, handover_created_at)
             SELECT id, wms_id, $2, 1, CASE WHEN $2 IN ('pending', 'sending', 'withdrawing') THEN now() END, 0, now()
             FROM expedition WHERE id = $1
             ON CONFLICT (id) DO UPDATE SET handover_state = excluded.handover_state,
                 handover_next_attempt_at = excluded.handover_next_attempt_at",
        )
        .bind(ready["id"].as_str().unwrap().parse::<uuid::Uuid>().unwrap())
        .bind(state)
        .execute(&world.owner)
        .await
        .unwrap();
        api.get(&program, &path(ready, "")).await.expect(sees);
        let criteria = json!({"handover.state": {"eq": state}});
        let found = listed(&api.superadmin, "expedition", json!({"criteria": criteria})).await;
        assert_eq!(found["paging"]["total"], 1, "{state}");
    }
    sqlx::query("DELETE FROM expedition_handover").execute(&world.owner).await.unwrap();
    // paths lead to nothing else, and to no order that was not handed over
    for criteria in
        [json!({"eshop.name": {"like": "Gifts"}}), json!({"items.product.productSku": {"eq": "MUG"}})]
    {
        let found = listed(&program, "expedition", json!({"criteria": criteria})).await;
        assert_eq!(found["paging"]["total"], 0, "{criteria}");
    }
    for (status, total) in [("on_hold", 0), ("take_out", 1)] {
        let criteria = json!({"expedition.status": {"eq": status}});
        let found = listed(&program, "expedition-item", json!({"criteria": criteria})).await;
        assert_eq!(found["paging"]["total"], total, "{status}");
    }

    // an advice of its wms is received by it alone
    let advice = world.announce("arrival", &[(&world.lamp, 2)]).await;
    let place = format!("/api/stock-advice/{}", advice["id"].as_str().unwrap());
    let receipt = json!({"items": [{"id": advice["items"][0]["id"], "quantity": 1}]});
    for token in [&other, &foreign] {
        api.get(token, &place).await.expect(404);
        api.put(token, &format!("{place}/receive"), receipt.clone()).await.expect(404);
    }
    api.get(&program, &place).await.expect(200);
    let received = api.put(&program, &format!("{place}/receive"), receipt).await.expect(200).json();
    assert_eq!(received["status"], "receiving");
    api.put(&program, &format!("{place}/cancel"), Value::Null).await.expect(403);
    // nothing else
    for (method, operation) in WRITES {
        let reply = api
            .call_with(&program, method.parse().unwrap(), &path(&orders[6], operation), json!({}), &[])
            .await;
        reply.expect(403);
    }
    api.put(&program, &path(&orders[6], "status"), json!({"status": "completion"})).await.expect(403);
    for resource in ["product", "product-stock", "eshop", "job", "wms"] {
        api.post(&program, &format!("/api/{resource}/list"), Value::Null).await.expect(403);
    }
}
