//! An example of each type of event: what the API document shows, and what a test of a webhook sends
//! (`docs/reference/webhooks.md#tests`). Its records do not exist; the examples of the API document are about the same ones.
//! `api/tests/it/webhook/example.rs` compares each with an event that a change has written.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{RESTORED, TEST};
use longshore_kernel::ids::{EshopId, EventId, WebhookId};

/// Its organisation.
pub const ORGANISATION: &str = "0192a1b2-7000-7000-8000-000000000001";
/// Its e-shop.
pub const ESHOP: &str = "0192a1b2-7000-7000-8000-000000000002";
/// Its warehouse.
pub const WAREHOUSE: &str = "0192a1b2-7000-7000-8000-000000000003";
/// Its wms.
pub const WMS: &str = "0192a1b2-7000-7000-8000-000000000004";
/// A product.
pub const PRODUCT: &str = "0192a1b2-7000-7000-8000-000000000005";
/// The stock of the product.
pub const PRODUCT_STOCK: &str = "0192a1b2-7000-7000-8000-000000000006";
/// A job.
pub const JOB: &str = "0192a1b2-7000-7000-8000-000000000009";
/// An access token of the organisation.
pub const TOKEN: &str = "0192a1b2-7000-7000-8000-00000000000b";
/// A supplier of the organisation.
pub const SUPPLIER: &str = "0192a1b2-7000-7000-8000-000000000020";
/// A stock advice of the supplier.
pub const STOCK_ADVICE: &str = "0192a1b2-7000-7000-8000-000000000021";
/// An order.
pub const EXPEDITION: &str = "0192a1b2-7000-7000-8000-000000000028";
/// The item of the order.
pub const EXPEDITION_ITEM: &str = "0192a1b2-7000-7000-8000-000000000029";

/// The SKU of the product.
const SKU: &str = "8590000000017";

/// The `data` of an example of a type. That of type `test` is about the webhook itself.
#[must_use]
pub fn data(kind: &str, webhook: WebhookId, eshop: Option<EshopId>, event: EventId) -> Value {
    let mut data = match kind {
        "organization_change" => json!({
            "id": ORGANISATION, "name": "Harbour Gifts", "changedFields": ["name"], "fields": {"name": "Harbour Gifts"},
        }),
        "product_change" => json!({
            "id": PRODUCT, "organisation": ORGANISATION, "productSku": SKU, "changedFields": ["active"],
            "fields": {"active": false},
        }),
        "product_stock_change" => json!({
            "id": PRODUCT_STOCK, "organisation": ORGANISATION, "product": PRODUCT, "productSku": SKU,
            "warehouse": WAREHOUSE, "wms": WMS, "changedFields": ["quantity", "available"],
            "fields": {"quantity": 120, "available": 100},
        }),
        "stock_advice_status_change" => json!({
            "id": STOCK_ADVICE, "organisation": ORGANISATION, "warehouse": WAREHOUSE, "wms": WMS, "supplier": SUPPLIER,
            "status": "closed", "orderNumber": "PO-2026-0042", "changedFields": ["status"], "fields": {"status": "closed"},
        }),
        "expedition_status_change" => of_order(
            "awaiting_processing",
            &json!(["status", "addressValidationExecuted"]),
            &json!({"status": "awaiting_processing", "previousStatus": "on_hold", "addressValidationExecuted": true}),
        ),
        "expedition_booked_change" => of_order(
            "awaiting_processing",
            &json!(["items"]),
            &json!({"items": [{
                "id": EXPEDITION_ITEM, "product": PRODUCT, "productSku": SKU, "quantity": 2, "booked": 2, "missing": 0,
            }]}),
        ),
        "expedition_change" => {
            of_order("on_hold", &json!(["deliveryStreet", "ref1"]), &json!({"ref1": "A-7"}))
        }
        "expedition_deleted" => json!({
            "id": EXPEDITION, "organisation": ORGANISATION, "eshop": ESHOP, "orderNumber": "2026-0042", "externalId": null,
        }),
        "sync_finished" => json!({
            "id": JOB, "organisation": ORGANISATION, "eshop": ESHOP, "kind": "product.sync",
            "changedFields": ["state", "progress", "outcome"],
            "fields": {"state": "succeeded", "outcome": "partial", "progress": {
                "total": 3, "done": 3, "changed": 2, "unchanged": 0, "failed": 1, "withheld": 0,
            }},
        }),
        "job_finished" => {
            let mut job = job();
            job["errors"] = json!([{"index": 2, "line": null, "key": "MUG-3", "code": "required", "propertyPath": "name"}]);
            job
        }
        // of no record: it has no version
        "restored" => {
            return json!({
                "id": ESHOP, "at": "2026-01-31T12:30:00.000000+00:00", "since": "2026-01-31T09:00:00.000000+00:00", "epoch": 2,
            });
        }
        _ => return json!({"id": webhook, "eshop": eshop, "event": event}),
    };
    data["version"] = json!(3);
    data
}

/// The e-shops that an example of a type concerns.
#[must_use]
pub fn eshops(kind: &str) -> Vec<Uuid> {
    let is_of_none = [RESTORED.name, TEST.name].contains(&kind);
    ESHOP.parse().ok().filter(|_| !is_of_none).into_iter().collect()
}

/// A job that has ended.
#[must_use]
pub fn job() -> Value {
    let (created, ended) = ("2026-01-31T12:00:00.000000+00:00", "2026-01-31T12:30:00.654321+00:00");
    json!({
        "id": JOB, "kind": "product.sync", "state": "succeeded", "organisation": ORGANISATION, "eshop": ESHOP,
        "outcome": "partial", "progress": {"total": 3, "done": 3, "changed": 2, "unchanged": 0, "failed": 1, "withheld": 0},
        "result": null, "criteria": null, "of": null, "preview": null, "connection": null, "waitsFor": null, "attempts": 1, "error": null,
        "createdBy": {"type": "token", "id": TOKEN, "name": "connector"},
        "requestId": "0192a1b2-7000-7000-8000-00000000000e", "createdAt": created, "startedAt": created,
        "attemptStartedAt": created, "finishedAt": ended, "changedAt": ended, "version": 3,
    })
}

fn of_order(status: &str, changed: &Value, fields: &Value) -> Value {
    json!({
        "id": EXPEDITION, "organisation": ORGANISATION, "eshop": ESHOP, "orderNumber": "2026-0042", "externalId": null,
        "status": status, "changedFields": changed, "fields": fields,
    })
}
