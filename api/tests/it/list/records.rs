//! Single records of each resource.

use longshore_kernel::ids;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::fixture::{Good, MIGRATIONS, list};
use crate::support::Api;
use crate::support::strangers;

/// Runs a statement with `$1` id, `$2` organisation, `$3` e-shop.
async fn run(api: &Api, sql: &'static str, id: Uuid) {
    sqlx::query(sql)
        .bind(id)
        .bind(api.tenant.organisation)
        .bind(api.tenant.eshop)
        .execute(&api.services.db.main)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_product_shows_what_it_was_created_with_and_what_was_added() {
    let api = Api::new(&strangers().await).await;
    let db = &api.services.db.main;
    let child = Good { weight: Some(5), ..Good::new(api.tenant.organisation.get(), "child") };
    child.store(db).await;
    let bundle = Good {
        kind: "bundle",
        children: vec![(child.id, 3)],
        eshops: vec![api.tenant.eshop.get()],
        references: vec!["r1".to_owned()],
        ..Good::new(api.tenant.organisation.get(), "bundle")
    };
    bundle.store(db).await;
    let reply = api.get(&api.user, &format!("/api/product/{}", bundle.id)).await.expect(200);
    assert_eq!(reply.header("etag"), Some("\"1\""));
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let expected = json!({
        "id": bundle.id, "eshops": [api.tenant.eshop], "productSku": "bundle", "internalSku": "bundle",
        "organisation": api.tenant.organisation, "productGroup": null, "name": "Product bundle", "description": null,
        "weight": null, "height": null, "width": null, "length": null, "referenceNumbers": ["r1"],
        "packagingType": "A", "imeiCheckRequired": false, "workAroundSnIn": false, "workAroundEanSticker": false,
        "workAroundWarrantyInf": false, "workAroundLot": false, "active": true, "countryOfOrigin": null,
        "hsCode": null, "type": "bundle", "childrenProducts": [{"productId": child.id, "quantity": 3}],
        "category": null, "images": [], "services": [],
        "createdAt": "2026-01-01T00:00:00.000000+00:00", "changedAt": "2026-01-01T00:00:00.000000+00:00",
        "version": 1,
    });
    assert_eq!(reply.json(), expected);
    let listed = list(&api, &api.user, "product", json!({"criteria": {"id": {"eq": bundle.id}}})).await;
    assert_eq!(listed["results"], json!([expected]));
    let child = api.get(&api.user, &format!("/api/product/{}", child.id)).await.expect(200).json();
    assert_eq!((&child["childrenProducts"], &child["eshops"]), (&Value::Null, &json!([])));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_stock_row_shows_what_is_available(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let good = Good::new(api.tenant.organisation.get(), "a");
    good.store(&api.services.db.main).await;
    let id = ids::new_id();
    sqlx::query(
        "INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity, held, incoming)
         VALUES ($1, $2, $3, $4, $5, 10, 3, 7)",
    )
    .bind(id)
    .bind(api.tenant.organisation)
    .bind(good.id)
    .bind(api.tenant.warehouse)
    .bind(api.tenant.wms)
    .execute(&api.services.db.main)
    .await
    .unwrap();
    let reply = api.get(&api.user, &format!("/api/product-stock/{id}")).await.expect(200);
    assert!(reply.header("etag").is_some());
    let stock = reply.json();
    assert_eq!(
        (&stock["quantity"], &stock["booked"], &stock["available"]),
        (&json!(10), &json!(3), &json!(7))
    );
    assert_eq!(
        (&stock["missing"], &stock["required"], &stock["incoming"]),
        (&json!(0), &json!(0), &json!(7))
    );
    for (criteria, total) in [
        (json!({"available": {"eq": 7}}), 1),
        (json!({"available": {"gt": 7}}), 0),
        (json!({"product.productSku": {"eq": "a"}, "warehouse.customId": {"eq": "W1"}}), 1),
        (json!({"product.organisation.name": {"eq": "Gifts"}}), 1),
        (json!({"product.eshops.name": {"eq": "Gifts shop"}}), 0),
    ] {
        let answer = list(&api, &api.user, "product-stock", json!({"criteria": criteria})).await;
        assert_eq!(answer["paging"]["total"], total, "{criteria}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_shows_its_progress_and_who_asked_for_it(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let id = ids::new_id();
    run(
        &api,
        "INSERT INTO job (id, kind, state, organisation_id, eshop_id, acceptance, total, done, changed, unchanged, failed,
             actor_type, actor_id, actor_name, request_id, started_at)
         VALUES ($1, 'product_sync', 'running', $2, $3, 1, 10, 6, 3, 2, 1, 'token', $1, 'me', 'r-1', now())",
        id,
    )
    .await;
    let job = api.get(&api.user, &format!("/api/job/{id}")).await.expect(200).json();
    assert_eq!(
        job["progress"],
        json!({"total": 10, "done": 6, "changed": 3, "unchanged": 2, "failed": 1, "withheld": 0})
    );
    assert_eq!(job["createdBy"], json!({"type": "token", "id": id, "name": "me"}));
    assert_eq!(
        (&job["requestId"], &job["finishedAt"], &job["error"]),
        (&json!("r-1"), &Value::Null, &Value::Null)
    );
    for (criteria, total) in [
        (json!({"progress.failed": {"gt": 0}}), 1),
        (json!({"progress.failed": {"gt": 1}}), 0),
        (json!({"createdBy.name": {"like": "ME"}, "state": {"in": ["running"]}}), 1),
        (json!({"eshop.name": {"eq": "Gifts shop"}}), 1),
    ] {
        let answer = list(&api, &api.user, "job", json!({"criteria": criteria})).await;
        assert_eq!(answer["paging"]["total"], total, "{criteria}");
    }
    let bound = api.tenant.eshop_token(&api.services).await.unwrap();
    api.get(&bound, &format!("/api/job/{id}")).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_webhook_shows_its_health_and_never_a_secret(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let id = ids::new_id();
    run(
        &api,
        "WITH hook AS (
             INSERT INTO webhook (id, organisation_id, eshop_id, event, events, destination, active, authentication_type,
                 authentication, secret)
             VALUES ($1, $2, $3, '*', '{product_change}', 'https://shop.example/hook', true, 'basic', 'sealed-a'::bytea, 'sealed-s'::bytea)
         )
         INSERT INTO webhook_lane (webhook_id) VALUES ($1)",
        id,
    )
    .await;
    let path = format!("/api/eshop-webhook/{id}");
    let read = async || api.get(&api.user, &path).await.expect(200);
    let reply = read().await;
    assert!(!reply.text.contains("sealed") && !reply.text.contains("secret"), "{}", reply.text);
    let hook = reply.json();
    assert_eq!(hook["authentication"], json!({"type": "basic", "username": "***", "password": "***"}));
    assert_eq!((&hook["health"], &hook["heldUntil"]), (&json!("healthy"), &Value::Null));
    for (hold, total) in [
        (
            "UPDATE webhook_lane SET held_until = now() + interval '4 minutes' WHERE webhook_id = $1 AND $2 <> $3",
            1,
        ),
        (
            "UPDATE webhook_lane SET held_until = now() - interval '1 second' WHERE webhook_id = $1 AND $2 <> $3",
            0,
        ),
    ] {
        run(&api, hold, id).await;
        assert_eq!(read().await.json()["heldUntil"].is_string(), total == 1);
        let held = json!({"criteria": {"heldUntil": {"null": false}}, "sort": [{"field": "heldUntil"}]});
        assert_eq!(list(&api, &api.user, "eshop-webhook", held).await["paging"]["total"], total);
    }
    run(
        &api,
        "UPDATE webhook_lane SET failures = 1, failing_since = now() WHERE webhook_id = $1 AND $2 <> $3",
        id,
    )
    .await;
    assert_eq!(read().await.json()["health"], "failing");
    run(
        &api,
        "UPDATE webhook SET active = false, disabled_at = now(), disabled_reason = 'gone', authentication_type = 'none',
             authentication = NULL WHERE id = $1 AND $2 <> $3",
        id,
    )
    .await;
    let hook = read().await.json();
    assert_eq!((&hook["health"], &hook["disabledReason"]), (&json!("disabled"), &json!("gone")));
    assert_eq!(hook["authentication"], json!({"type": "none"}));
    for (criteria, total) in [
        (json!({"health": {"eq": "disabled"}}), 1),
        (json!({"health": {"neq": "disabled"}}), 0),
        (json!({"authentication.type": {"eq": "none"}}), 1),
        (json!({"eshop.name": {"eq": "Gifts shop"}}), 1),
        (json!({"eshop.organisation.name": {"eq": "Toys"}}), 0),
    ] {
        let answer = list(&api, &api.user, "eshop-webhook", json!({"criteria": criteria})).await;
        assert_eq!(answer["paging"]["total"], total, "{criteria}");
    }
    let refused = api
        .post(&api.user, "/api/eshop-webhook/list", json!({"criteria": {"secret": {"like": "a"}}}))
        .await
        .expect(400);
    assert_eq!(refused.violations(), ["criteria.secret unknown_field"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_delivery_is_found_while_it_waits_and_after_it_has_ended(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let (hook, event, live, ended) = (ids::new_id(), ids::new_id(), ids::new_id(), ids::new_id());
    run(
        &api,
        "INSERT INTO webhook (id, organisation_id, eshop_id, event, events, destination, active, authentication_type, secret)
         VALUES ($1, $2, $3, '*', '{product_change}', 'https://shop.example/hook', true, 'none', '')",
        hook,
    )
    .await;
    run(
        &api,
        "INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data)
         VALUES ($1, 'product_change', $2, 'product', $3, '{}')",
        event,
    )
    .await;
    for (id, table) in [
        (
            live,
            "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, attempt_count, attempts)
             VALUES ($1, $2, $3, $4, now(), 1, '[{\"number\": 1}]') RETURNING $5::uuid",
        ),
        (
            ended,
            "INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id,
                 state, attempt_count, attempts, created_at, finished_at)
             VALUES ($1, $2, $3, $5, $4, 'product_change', $3, 'delivered', 1, '[{\"number\": 1}]', now(), now())",
        ),
    ] {
        sqlx::query(table)
            .bind(id)
            .bind(hook)
            .bind(api.tenant.eshop)
            .bind(event)
            .bind(api.tenant.organisation)
            .execute(&api.services.db.main)
            .await
            .unwrap();
    }
    for (id, state) in [(live, "pending"), (ended, "delivered")] {
        let delivery = api.get(&api.user, &format!("/api/webhook-delivery/{id}")).await.expect(200).json();
        assert_eq!(delivery["state"], state);
        assert_eq!(delivery["event"], "product_change");
        assert_eq!(delivery["entity"], json!({"type": "product", "id": api.tenant.eshop}));
        assert_eq!(delivery["attempts"], json!([{"number": 1}]));
        assert_eq!((&delivery["webhook"], &delivery["webhookId"]), (&json!(hook), &json!(event)));
        assert_eq!(delivery["finishedAt"].is_null(), state == "pending");
        assert_eq!(delivery["nextAttemptAt"].is_null(), state != "pending");
    }
    let all = list(&api, &api.user, "webhook-delivery", Value::Null).await;
    let ids: Vec<_> = all["results"].as_array().unwrap().iter().map(|r| r["id"].clone()).collect();
    assert_eq!(ids, [json!(live), json!(ended)]);
    assert!(all["results"][0].get("attempts").is_none());
    for (criteria, total) in [
        (json!({"state": {"eq": "pending"}}), 1),
        (json!({"state": {"in": ["pending", "delivered"]}}), 2),
        (json!({"entity.id": {"eq": api.tenant.eshop}, "entity.type": {"eq": "product"}}), 2),
        (json!({"webhook": {"eq": hook}, "event": {"eq": "test"}}), 0),
        (json!({"webhook.destination": {"like": "shop.example"}}), 2),
    ] {
        let answer = list(&api, &api.user, "webhook-delivery", json!({"criteria": criteria})).await;
        assert_eq!(answer["paging"]["total"], total, "{criteria}");
    }
    let refused =
        api.post(&api.user, "/api/webhook-delivery/list", json!({"select": ["attempts"]})).await.expect(400);
    assert_eq!(refused.violations(), ["select[0] unknown_field"]);
}

#[tokio::test]
async fn an_unknown_id_is_404_and_a_malformed_one_400() {
    let api = Api::new(&strangers().await).await;
    for resource in ["product", "product-stock", "job", "eshop-webhook", "webhook-delivery"] {
        let unknown = api.get(&api.user, &format!("/api/{resource}/{}", ids::new_id())).await.expect(404);
        assert_eq!(unknown.json()["code"], "not_found");
        for malformed in ["7", "0190a00000007000800000000000000", "'; DROP TABLE product; --"] {
            let path = format!("/api/{resource}/{}", malformed.replace(' ', "%20"));
            assert_eq!(api.get(&api.user, &path).await.expect(400).json()["code"], "invalid_id");
        }
        api.get("", &format!("/api/{resource}/{}", ids::new_id())).await.expect(401);
    }
}
