//! Quotas: how many records of a kind an organisation may have.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use longshore_kernel::access::Role;
use longshore_kernel::config::QuotaSettings;
use longshore_kernel::quota::Quotas;
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::product::{World, body};
use crate::support::Api;

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// The service with other quotas.
async fn with(options: &PgConnectOptions, change: impl FnOnce(&mut QuotaSettings)) -> World {
    let mut services = services::for_test(options).unwrap();
    let mut settings = services::quota_settings().unwrap();
    change(&mut settings);
    services.quotas = Quotas::new(settings, services.metrics.clone());
    World::over(Api::over(services).await, options).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_organisation_creates_up_to_its_quota_and_another_up_to_its_own(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = with(&options, |quotas| {
        (quotas.quota_products, quotas.quota_suppliers) = (2, 1);
        (quotas.quota_webhooks, quotas.quota_access_tokens) = (1, 5);
        quotas.quota_carrier_preferences = 1;
    })
    .await;
    let api = &world.api;
    let product = world.add("A", json!({})).await;
    world.add("B", json!({})).await;
    let refused = world.post(world.body("C")).await.expect(409).json();
    assert_eq!(refused["code"], "quota_reached");
    assert_eq!(refused["detail"], "the organisation has reached its quota of products: 2");
    // violations are reported first, and existing records may be changed
    world.post(world.body_with("C", &json!({"weight": -1}))).await.expect(400);
    world.put(&product, json!({"name": "Harbour mug"})).await.expect(200);
    let supplier = json!({"organisation": api.tenant.organisation, "name": "Clay Works"});
    api.post(&api.user, "/api/supplier", supplier.clone()).await.expect(201);
    let refused = api.post(&api.user, "/api/supplier", supplier).await.expect(409).json();
    assert_eq!(refused["detail"], "the organisation has reached its quota of suppliers: 1");
    let carrier = json!({"name": "Post", "code": 1, "organisations": [api.tenant.organisation]});
    let carrier = api.post(&api.superadmin, "/api/carrier", carrier).await.expect(201).json()["id"].clone();
    let prefers = |position: i32| json!({"organisation": api.tenant.organisation, "carrier": carrier, "position": position});
    let made = api.post(&api.user, "/api/carrier-preference", prefers(1)).await.expect(201).json();
    let refused = api.post(&api.user, "/api/carrier-preference", prefers(2)).await.expect(409).json();
    assert_eq!(refused["detail"], "the organisation has reached its quota of carrier preferences: 1");
    // a deletion makes room
    let path = format!("/api/carrier-preference/{}", made["id"].as_str().unwrap());
    api.delete(&api.user, &path).await.expect(204);
    api.post(&api.user, "/api/carrier-preference", prefers(2)).await.expect(201);
    let hook = json!({"eshop": api.tenant.eshop, "event": "*", "destination": "http://127.0.0.1:1/"});
    let made = api.post(&api.user, "/api/eshop-webhook", hook.clone()).await.expect(201).json();
    api.post(&api.user, "/api/eshop-webhook", hook.clone()).await.expect(409);
    let path = format!("/api/eshop-webhook/{}", made["id"].as_str().unwrap());
    api.delete(&api.user, &path).await.expect(204);
    api.post(&api.user, "/api/eshop-webhook", hook).await.expect(201);
    // the tokens of the test count, too: one of a user and one of a connector
    let token = json!({"name": "t", "role": "user", "organisation": api.tenant.organisation});
    let mut ids = Vec::new();
    for _ in 0..3 {
        let made = api.post(&api.superadmin, "/api/access-token", token.clone()).await.expect(201).json();
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    api.post(&api.superadmin, "/api/access-token", token.clone()).await.expect(409);
    api.delete(&api.superadmin, &format!("/api/access-token/{}", ids[0])).await.expect(204);
    api.post(&api.superadmin, "/api/access-token", token).await.expect(201);
    // another organisation has its own
    let other = Tenant::create(&api.services, "Other").await.unwrap();
    let user = other.token(&api.services, Role::User).await.unwrap();
    api.post(&user, "/api/product", body(&other, "A")).await.expect(201);
    let metrics = api.get("", "/metrics").await.expect(200).text;
    for line in ["{quota=\"product\"} 1", "{quota=\"supplier\"} 1", "{quota=\"access_token\"} 1"] {
        assert!(metrics.contains(&format!("longshore_quota_refusals_total{line}")), "{line}: {metrics}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_object_store_takes_so_many_bytes_of_an_organisation(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let gif = STANDARD.decode("R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs=").unwrap();
    let size = gif.len();
    let world = with(&options, |quotas| quotas.quota_object_bytes = 2 * size as u64 + 9).await;
    let api = &world.api;
    let used = async || {
        world
            .count("SELECT coalesce(sum(used), 0)::bigint FROM quota_use WHERE kind = 'object_bytes'")
            .await
            .unsigned_abs()
    };
    let product = world.add("A", json!({})).await;
    let picture = json!({"data": STANDARD.encode(&gif)});
    let upload = format!("/api/product/{product}/image/upload");
    let image = api.put(&api.user, &upload, picture.clone()).await.expect(201).json();
    let carrier = json!({"name": "Post", "code": 1, "organisations": [api.tenant.organisation]});
    let carrier = api.post(&api.superadmin, "/api/carrier", carrier).await.expect(201).json()["id"].clone();
    let order = json!({"eshop": api.tenant.eshop, "orderNumber": "1", "value": 1, "currency": "EUR", "carrier": carrier,
        "ignoreAddressValidation": true, "items": [{"product": product, "quantity": 1}]});
    let order = api.post(&api.user, "/api/expedition", order).await.expect(201).json();
    let order = format!("/api/expedition/{}", order["id"].as_str().unwrap());
    let invoice = format!("{order}/invoice");
    let pdf = |bytes: usize| json!({"data": STANDARD.encode(format!("{:<bytes$}", "%PDF-"))});
    // one byte too many, and as many as there are
    let refused = api.post(&api.user, &invoice, pdf(size + 10)).await.expect(409).json();
    assert_eq!(refused["code"], "quota_reached");
    let limit = 2 * size + 9;
    let detail = format!("the organisation has reached its quota of bytes of images and invoices: {limit}");
    assert_eq!(refused["detail"], detail);
    api.post(&api.user, &invoice, pdf(size + 9)).await.expect(201);
    assert_eq!(used().await, limit as u64);
    api.put(&api.user, &upload, picture.clone()).await.expect(409);
    // what takes the place of another needs the room of the difference
    api.post(&api.user, &invoice, pdf(size + 9)).await.expect(201);
    api.post(&api.user, &invoice, pdf(size + 10)).await.expect(409);
    api.post(&api.user, &invoice, pdf(9)).await.expect(201);
    assert_eq!(used().await, (size + 9) as u64);
    api.put(&api.user, &upload, picture.clone()).await.expect(201);
    // what is deleted makes room, with its order, too
    api.delete(&api.user, &order).await.expect(204);
    assert_eq!(used().await, 2 * size as u64);
    api.put(&api.user, &upload, picture.clone()).await.expect(409);
    api.delete(&api.user, image["url"].as_str().unwrap()).await.expect(204);
    assert_eq!(used().await, size as u64);
    // another organisation has its own
    let other = Tenant::create(&api.services, "Other").await.unwrap();
    let user = other.token(&api.services, Role::User).await.unwrap();
    let theirs = api.post(&user, "/api/product", body(&other, "A")).await.expect(201).json();
    let theirs = format!("/api/product/{}/image/upload", theirs["id"].as_str().unwrap());
    api.put(&user, &theirs, picture).await.expect(201);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn only_existing_records_are_counted(_: PgPoolOptions, options: PgConnectOptions) {
    let world = with(&options, |_| {}).await;
    world.add("A", json!({})).await;
    let user = json!({"email": "one@example.invalid", "firstName": "One", "lastName": "User",
        "organisation": world.api.tenant.organisation});
    let made = world.api.post(&world.api.superadmin, "/api/business-user", user).await.expect(201).json();
    let counted = "SELECT count(*) FROM (
             SELECT kind, sum(used) FROM quota_use GROUP BY 1 HAVING sum(used) <> 0
         ) q (kind, used)
         JOIN (SELECT 'eshop', count(*) FROM eshop UNION ALL SELECT 'warehouse', count(*) FROM warehouse
               UNION ALL SELECT 'wms', count(*) FROM wms UNION ALL SELECT 'product', count(*) FROM product
               UNION ALL SELECT 'business_user', count(*) FROM business_user
               UNION ALL SELECT 'access_token', count(*) FROM access_token WHERE organisation_id IS NOT NULL) t (kind, there)
         ON t.kind = q.kind AND t.there = q.used";
    assert_eq!(world.count(counted).await, 6);
    let path = format!("/api/business-user/{}", made["id"].as_str().unwrap());
    world.api.delete(&world.api.superadmin, &path).await.expect(204);
    assert_eq!(world.count(counted).await, 5);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn concurrent_creations_exceed_a_quota_by_at_most_the_number_under_way(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = with(&options, |quotas| quotas.quota_suppliers = 10).await;
    let api = &world.api;
    let supplier = json!({"organisation": api.tenant.organisation, "name": "Clay Works"});
    let replies =
        futures::future::join_all((0..60).map(|_| api.post(&api.user, "/api/supplier", supplier.clone())))
            .await;
    let made = replies.iter().filter(|reply| reply.status == StatusCode::CREATED).count();
    // nine of twelve connections at once
    assert!((10..=10 + 9).contains(&made), "{made}");
    assert!(replies.iter().all(|reply| matches!(reply.status.as_u16(), 201 | 409)));
}
