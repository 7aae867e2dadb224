//! The versions of all records, before and after each writing operation.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::stock_advice::World;

const RECORDS: &[&str] = &[
    "organisation",
    "eshop",
    "access-token",
    "admin",
    "business-user",
    "warehouse",
    "wms",
    "supplier",
    "packaging-option",
    "product",
    "product-stock",
    "stock-advice",
    "carrier",
    "carrier-service",
    "carrier-preference",
    "eshop-webhook",
    "event-reader",
    "job",
];

/// Members that the service observes, or that show when a record changed.
const OBSERVED: &[&str] = &[
    "version",
    "changedAt",
    "health",
    "heldUntil",
    "lastUsedAt",
    "progress",
    "outcome",
    "result",
    "waitsFor",
];

/// Every record as it is listed, by its id.
pub(super) async fn records(world: &World) -> BTreeMap<String, Value> {
    let mut records = BTreeMap::new();
    for name in RECORDS {
        let path = format!("/api/{name}/list");
        let listed = world.api.post(&world.api.superadmin, &path, Value::Null).await.expect(200).json();
        for record in listed["results"].as_array().unwrap() {
            assert!(record["version"].as_i64().is_some_and(|version| version >= 1), "{name}: {record}");
            records.insert(record["id"].as_str().unwrap().to_owned(), record.clone());
        }
    }
    let path = format!("/api/partner-integration/eshop-setting/{}", world.api.tenant.eshop);
    let setting = world.api.get(&world.api.superadmin, &path).await;
    if setting.status == 200 {
        let setting = setting.json();
        records.insert(setting["id"].as_str().unwrap().to_owned(), setting);
    }
    records
}

/// Checks the versions after an operation: one more for each record whose content changed, at most one more
/// for the others; `changedAt` increases with the version, and nothing else does. Audit records have the time
/// of the change.
pub(super) async fn compare(
    world: &World,
    operation: &str,
    request: &str,
    before: &BTreeMap<String, Value>,
    after: &BTreeMap<String, Value>,
) {
    let audited: Vec<(String, String)> = sqlx::query_as(
        r#"SELECT entity_id::text, to_char(max(at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')
           FROM audit WHERE request_id = $1 GROUP BY entity_id"#,
    )
    .bind(request)
    .fetch_all(&world.owner)
    .await
    .unwrap();
    let audited: BTreeMap<_, _> = audited.into_iter().collect();
    for (id, now) in after {
        let Some(was) = before.get(id) else {
            // rows of a sync are received and accepted in different transactions
            let most = if now["kind"].is_string() { 2 } else { 1 };
            assert!((1..=most).contains(&now["version"].as_i64().unwrap()), "{operation}: {now}");
            continue;
        };
        let shown = |record: &Value| {
            let mut record = record.clone();
            record.as_object_mut().unwrap().retain(|name, _| !OBSERVED.contains(&name.as_str()));
            record
        };
        let raised = now["version"].as_i64().unwrap() - was["version"].as_i64().unwrap();
        if shown(was) == shown(now) {
            assert!((0..=1).contains(&raised), "{operation}: {was} and {now}");
        } else {
            assert_eq!(raised, 1, "{operation}: {was} and {now}");
        }
        let (earlier, later) = (was["changedAt"].as_str(), now["changedAt"].as_str());
        assert_eq!(later > earlier, raised == 1, "{operation}: {was} and {now}");
        assert_eq!(later == earlier, raised == 0, "{operation}: {was} and {now}");
        if let (1, Some(at)) = (raised, audited.get(id)) {
            assert_eq!(json!(at), now["changedAt"], "{operation}");
        }
    }
}
