//! What rules refuse and what is not there are told together, and as sentences (`docs/reference/errors.md#violations`).

use http::Method;
use serde_json::json;
use uuid::Uuid;

use crate::support::Api;
use crate::support::strangers;

#[tokio::test]
async fn what_is_malformed_hides_no_reference_that_does_not_exist() {
    let api = Api::new(&strangers().await).await;
    let (tenant, nobody) = (&api.tenant, Uuid::nil());
    let setting = format!("/api/partner-integration/eshop-setting/{}", tenant.eshop);
    for (method, path, body, expected) in [
        (
            Method::PUT,
            format!("/api/eshop/{}", tenant.eshop),
            json!({"warehouses": ["x", nobody]}),
            ["warehouses[0] invalid_id", "warehouses[1] unknown_reference"],
        ),
        (
            Method::PUT,
            format!("/api/warehouse/{}", tenant.warehouse),
            json!({"wmses": [7, nobody]}),
            ["wmses[0] wrong_type", "wmses[1] unknown_reference"],
        ),
        (
            Method::PUT,
            format!("/api/wms/{}", tenant.wms),
            json!({"warehouses": [nobody, null]}),
            ["warehouses[1] wrong_type", "warehouses[0] unknown_reference"],
        ),
        (
            Method::POST,
            "/api/carrier".to_owned(),
            json!({"name": "Gulls", "code": 1, "organisations": ["x", nobody]}),
            ["organisations[0] invalid_id", "organisations[1] unknown_reference"],
        ),
        (
            Method::POST,
            "/api/carrier-preference".to_owned(),
            json!({"organisation": tenant.organisation, "position": -1, "carrier": nobody}),
            ["position out_of_range", "carrier unknown_reference"],
        ),
        (
            Method::POST,
            "/api/admin".to_owned(),
            json!({"email": "ann", "firstName": "A", "lastName": "B", "role": "viewer", "password": "hush hush word",
                "organisations": [nobody]}),
            ["email invalid_email", "organisations[0] unknown_reference"],
        ),
        (
            Method::POST,
            "/api/business-user".to_owned(),
            json!({"email": "uma", "firstName": "A", "lastName": "B", "organisation": nobody}),
            ["email invalid_email", "organisation unknown_reference"],
        ),
        (
            Method::POST,
            "/api/access-token".to_owned(),
            json!({"name": "", "role": "connector", "organisation": tenant.organisation, "eshop": nobody}),
            ["name invalid_length", "eshop unknown_reference"],
        ),
        (
            Method::POST,
            "/api/access-token".to_owned(),
            json!({"name": "x", "role": "king", "organisation": nobody, "eshop": tenant.eshop}),
            ["role not_allowed", "organisation unknown_reference"],
        ),
        (
            Method::POST,
            "/api/eshop-webhook".to_owned(),
            json!({"eshop": nobody, "event": "never", "destination": "https://shop.example/"}),
            ["event not_allowed", "eshop unknown_reference"],
        ),
        (
            Method::POST,
            setting,
            json!({"integrationType": "baselinker", "credentials": {"token": "hush"}, "warehouses": [
                {"warehouseId": "a", "warehouse": "x"}, {"warehouseId": "b", "warehouse": nobody}]}),
            ["warehouses[0].warehouse invalid_id", "warehouses[1].warehouse unknown_reference"],
        ),
        (
            Method::POST,
            "/api/partner-integration/eshop/sync/product-stocks".to_owned(),
            json!({"eshop": nobody, "warehouseId": 7, "stocks": []}),
            ["warehouseId wrong_type", "eshop unknown_reference"],
        ),
        (
            Method::POST,
            "/api/product".to_owned(),
            json!({"organisation": tenant.organisation, "eshops": ["x", nobody], "productSku": "S", "internalSku": "S",
                "name": "Mug", "imeiCheckRequired": false, "active": true}),
            ["eshops[0] invalid_id", "eshops[1] unknown_reference"],
        ),
    ] {
        let reply = api.call_with(&api.superadmin, method.clone(), &path, body, &[]).await.expect(400);
        assert_eq!(reply.violations(), expected, "{method} {path}");
    }
}

#[tokio::test]
async fn a_detail_is_a_sentence_that_begins_with_the_path() {
    let api = Api::new(&strangers().await).await;
    let (eshop, nobody) = (api.tenant.eshop, Uuid::nil());
    let admin = json!({"email": "ann@shop.example", "firstName": "A", "lastName": "B", "role": "viewer"});
    api.post(&api.superadmin, "/api/admin", admin.clone()).await.expect(201);
    let replay = "/api/webhook-delivery/replay";
    for (path, body, detail) in [
        ("/api/supplier", json!({"organisation": nobody, "name": "x"}), "organisation does not exist"),
        (
            "/api/eshop-webhook",
            json!({"eshop": nobody, "event": "*", "destination": "https://shop.example/"}),
            "eshop does not exist",
        ),
        (
            "/api/carrier",
            json!({"name": "Gulls", "code": 1, "organisations": [nobody]}),
            "organisations[0] does not exist",
        ),
        (
            "/api/carrier-service",
            json!({"carrier": nobody, "name": "Parcel", "code": 1}),
            "carrier does not exist",
        ),
        ("/api/admin", admin, "email belongs to another admin"),
        (
            "/api/access-token",
            json!({"name": "x", "role": "connector", "organisation": api.tenant.organisation, "eshop": nobody}),
            "eshop must be an e-shop of the organisation",
        ),
        (replay, json!({"since": "2026-01-01T00:00:00Z"}), "webhooks is required, or eshop, or host"),
        (
            replay,
            json!({"since": "2026-01-01T00:00:00Z", "webhooks": [nobody]}),
            "webhooks[0] does not exist",
        ),
        (replay, json!({"since": "2026-01-01T00:00:00Z", "eshop": eshop}), "eshop matches no webhook"),
        (
            "/api/partner-integration/eshop/sync/products",
            json!({"eshop": nobody, "products": []}),
            "eshop does not exist",
        ),
    ] {
        let reply = api.post(&api.superadmin, path, body).await.expect(400).json();
        assert_eq!((&reply["detail"], &reply["message"]), (&json!(detail), &json!(detail)), "{path}");
    }
}
