//! Writing operations on orders.

use serde_json::{Value, json};

use super::Leaves::{Job, Record};
use super::{Case, Leaves, World, id};

/// A case for each operation.
pub(super) async fn cases(world: &World, product: &str) -> Vec<Case> {
    let (api, tenant) = (&world.api, &world.api.tenant);
    world.execute("UPDATE product_stock SET quantity = 100").await;
    let post = json!({"name": "Post", "code": 71, "organisations": [tenant.organisation]});
    let carrier = id(&api.post(&api.superadmin, "/api/carrier", post).await.expect(201).json());
    let body = |number: &str| {
        json!({"eshop": tenant.eshop, "orderNumber": number, "value": 1, "currency": "EUR", "note": "hush-5",
               "carrier": carrier, "ignoreAddressValidation": true, "items": [{"product": product, "quantity": 1}]})
    };
    let made = async |number: &str, sent: bool, waits: bool| {
        let mut body = body(number);
        (body["send"], body["waitBeforeProcessing"]) = (json!(sent), json!(waits));
        id(&api.post(&api.user, "/api/expedition", body).await.expect(201).json())
    };
    let case = |operation: &'static str, path: String, body: Value, leaves: Leaves| Case {
        operation,
        path,
        body,
        leaves,
    };
    let on = |operation: &'static str, order: &str, body: Value, action| {
        let path = operation.split_once(' ').unwrap().1.replace("{id}", order);
        case(operation, path, body, Record(action))
    };
    let many = |operation: &'static str, body: Value| {
        case(operation, operation.split_once(' ').unwrap().1.to_owned(), body, Job)
    };
    let (held, waiting) = (made("held", false, false).await, made("waiting", true, true).await);
    let rows = json!({"eshop": tenant.eshop, "expeditions": [body("row")]});
    let news = json!({"wms": tenant.wms, "news": [{"id": "1", "expedition": waiting, "status": "take_out"}]});
    vec![
        case("POST /api/expedition", "/api/expedition".to_owned(), body("new"), Record("expedition.create")),
        on("PUT /api/expedition/{id}", &held, json!({"note": "hush-6"}), "expedition.update"),
        on("PATCH /api/expedition/{id}", &held, json!({"ref1": "A"}), "expedition.update"),
        on(
            "POST /api/expedition/{id}/invoice",
            &held,
            json!({"fileName": "a.pdf", "data": "JVBERi0xLjQKJSVFT0YK"}),
            "expedition.invoice_add",
        ),
        on("DELETE /api/expedition/{id}/invoice", &held, Value::Null, "expedition.invoice_remove"),
        on("PUT /api/expedition/{id}/send", &held, Value::Null, "expedition.send"),
        on(
            "DELETE /api/expedition/{id}",
            &made("gone", false, false).await,
            Value::Null,
            "expedition.delete",
        ),
        on("PATCH /api/expedition/{id}/unbook", &waiting, Value::Null, "expedition.unbook"),
        on("PATCH /api/expedition/{id}/rebook", &waiting, Value::Null, "expedition.rebook"),
        on("PUT /api/expedition/{id}/rollback", &waiting, Value::Null, "expedition.hold"),
        on("PUT /api/expedition/{id}/cancel", &waiting, Value::Null, "expedition.cancel"),
        on(
            "PUT /api/expedition/{id}/process",
            &made("booked", true, true).await,
            Value::Null,
            "expedition.process",
        ),
        on(
            "PUT /api/expedition/{id}/status",
            &made("picked", true, false).await,
            json!({"status": "take_out"}),
            "expedition.status",
        ),
        many("PUT /api/expedition/send", json!([waiting])),
        many("PUT /api/expedition/process", json!([waiting])),
        many("PUT /api/expedition/rollback", json!([waiting])),
        many("PUT /api/expedition/cancel", json!([waiting])),
        many("POST /api/partner-integration/eshop/sync/expeditions", rows),
        many("POST /api/partner-integration/wms/sync/news", news),
    ]
}
