//! What is deleted for good is gone, and the document says so of every operation on it.

use http::Method;
use serde_json::Value;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::operations_of;
use super::sample::{Operation, Sample};
use crate::product::MIGRATIONS;

/// What makes the records of the sample ready to be deleted.
const BEFORE: [&str; 3] = ["store_integration_setting", "store_wms_setting", "cancel_expedition"];

/// The deletions of records: an account after what it owns.
const DELETIONS: [&str; 10] = [
    "end_session",
    "delete_admin",
    "delete_business_user",
    "delete_carrier_preference",
    "delete_event_reader",
    "delete_webhook",
    "delete_product_image",
    "delete_expedition",
    "delete_integration_setting",
    "delete_wms_setting",
];

/// Whether an operation finds a record all the same: a setting that is stored again is back, and that of a revoked token stays.
fn finds_it(operation: &str) -> bool {
    operation.starts_with("store_") || operation.ends_with("_access_token")
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_operation_on_a_deleted_record_is_answered_as_the_document_says(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let sample = Sample::new(&options).await;
    let operations = sample.operations();
    let token = &sample.api.superadmin;
    let named = |id: &str| operations.iter().find(|operation| operation.id == id).unwrap();
    for id in BEFORE {
        let reply = sample.call(token, named(id), 0).await;
        assert!(reply.status.is_success(), "{id}: {}", reply.text);
    }
    let mut gone = 0;
    for deletion in DELETIONS.map(named) {
        sample.call(token, deletion, 0).await.expect(204);
        let record = deletion.path.rsplit('/').next().unwrap();
        let of_record = |operation: &&Operation| operation.path.contains(record) && !finds_it(&operation.id);
        for operation in operations.iter().filter(of_record) {
            let reply = sample.call(token, operation, 0).await;
            let (place, status) = (format!("{} {}", operation.method, operation.path), reply.status.as_u16());
            assert!(operation.answers.contains(&status.to_string()), "{place}: {status} {}", reply.text);
            if operation.method == Method::GET && operation.answers.contains(&"410".to_owned()) {
                assert_eq!(status, 410, "{place}: {}", reply.text);
            }
            gone += usize::from(status == 410);
        }
    }
    assert!(gone > 30, "{gone}");
}

/// A record is deleted at a path that ends with its id and has fixed words before its ids.
#[test]
fn every_operation_on_a_record_that_can_be_deleted_describes_410() {
    let document: Value = serde_json::from_str(longshore_api::openapi::text()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let can_be_deleted = |path: &str| {
        let (words, ids) = path.split_at(path.find('{')?);
        // a lost order is dismissed, and no record
        let is_record = paths[path].get("delete").is_some()
            && ids.split('/').all(|id| id.starts_with('{'))
            && words != "/api/lost-order/";
        is_record.then(|| (words.to_owned(), ids.to_owned()))
    };
    let records: Vec<_> = paths.keys().filter_map(|path| can_be_deleted(path)).collect();
    // and access tokens
    assert_eq!(records.len(), DELETIONS.len() + 1, "{records:?}");
    let mut described = 0;
    for (words, ids) in records {
        for (path, item) in paths.iter().filter(|(path, _)| path.starts_with(&words)) {
            if !ids.split('/').all(|id| path.split('/').any(|part| part == id)) {
                continue;
            }
            for (_, operation) in operations_of(item) {
                let id = operation["operationId"].as_str().unwrap();
                let is_described = operation["responses"].get("410").is_some();
                assert_eq!(is_described, !finds_it(id), "{id}");
                described += 1;
            }
        }
    }
    assert!(described > 45, "{described}");
}
