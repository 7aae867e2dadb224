//! Who may do what, and see what (`docs/reference/roles.md#permissions`).

use http::Method;
use longshore_shared::kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, PATH, World, path};

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

#[sqlx::test(migrator = "MIGRATIONS")]
async fn viewers_read_and_only_operators_report(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
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

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_foreign_is_not_there(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
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
        // the number of a foreign order is not told either
        let taken = json!({"eshop": api.tenant.eshop, "orderNumber": "1", "value": 1, "currency": "EUR",
                           "items": [{"product": world.mug, "quantity": 1}]});
        let refused = api.post(token, PATH, taken).await.expect(400);
        assert_eq!(refused.violations(), ["eshop unknown_reference"]);
    }
    api.put(&admin, &path(&order, "status"), json!({"status": "take_out"})).await.expect(404);
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
