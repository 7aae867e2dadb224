//! Every record that can be updated accepts its own representation, also an earlier one, and refuses a changed read-only member.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Map, Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::sample::{Operation, Sample};
use crate::product::MIGRATIONS;

/// Members that are never compared: the version, and what the service stamps or observes by itself.
const NEVER_COMPARED: [&str; 23] = [
    "audits",
    "backlog",
    "blockedBy",
    "blockedUntil",
    "changedAt",
    "handover",
    "health",
    "heldUntil",
    "lastError",
    "modifiedAt",
    "nextProductSync",
    "nextStockSync",
    "oldestWaitingSince",
    "position",
    "positionAt",
    "readAt",
    "readTo",
    "starting",
    "statusSince",
    "toHandOver",
    "version",
    "waiting",
    "waitsFor",
];

impl Sample {
    /// The operations that update a record with a body of its fields and the path of its look-up.
    fn updates(&self) -> Vec<Operation> {
        let operations = self.operations();
        let reads: BTreeSet<String> = operations
            .iter()
            .filter(|operation| operation.method == Method::GET && operation.names_record)
            .map(|operation| operation.path.clone())
            .collect();
        let is_update = |operation: &Operation| {
            // a file is no record
            let is_file = operation.path.ends_with("/invoice");
            let is_record =
                !is_file && operation.bodies.iter().all(|(media, ..)| media == "application/json");
            [Method::PUT, Method::POST].contains(&operation.method)
                && reads.contains(&operation.path)
                && is_record
        };
        operations.into_iter().filter(is_update).collect()
    }

    /// The names of members that the body of an operation may change.
    fn changeable(&self, operation: &Operation) -> BTreeSet<String> {
        let schema = self.schema(&operation.bodies[0].1);
        let forms = schema["anyOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
        let names = |form: &Value| -> Vec<String> {
            self.schema(form)["properties"].as_object().into_iter().flat_map(Map::keys).cloned().collect()
        };
        forms.iter().flat_map(names).collect()
    }

    async fn read_back(&self, operation: &Operation) -> Value {
        self.api.get(&self.api.superadmin, &operation.path).await.expect(200).json()
    }

    async fn write(&self, operation: &Operation, body: Value) -> crate::support::Reply {
        let token = &self.api.superadmin;
        self.api.call_with(token, operation.method.clone(), &operation.path, body, &[]).await
    }

    async fn audited(&self) -> Value {
        let body = json!({"limit": 0});
        self.api.post(&self.api.superadmin, "/api/audit", body).await.expect(200).json()["paging"]["total"]
            .clone()
    }
}

/// Members that are compared, however long ago a record was read.
const IDENTITY: [&str; 2] = ["createdAt", "id"];

/// A different value of the same kind, if there is one.
fn another(value: &Value) -> Value {
    match value {
        Value::Null => json!("x"),
        Value::Bool(value) => json!(!value),
        Value::Number(_) => json!(987_654_321),
        Value::String(_) => json!("2020-02-02T02:02:02.222222+00:00"),
        Value::Array(values) => json!([values.as_slice(), &[json!("x")]].concat()),
        Value::Object(_) => json!({}),
    }
}

/// What clients of this API family send in any case, and the service fills in.
const IGNORED: [&str; 1] = ["removedVirtualProducts"];

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_record_that_was_read_is_written_back_and_nothing_changes(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let sample = Sample::new(&options).await;
    // a setting must be stored before it can be read
    let store = sample.operations().into_iter().find(|operation| operation.id == "store_integration_setting");
    sample.call(&sample.api.superadmin, &store.unwrap(), 0).await.expect(200);
    let updates = sample.updates();
    let ids: Vec<_> = updates.iter().map(|operation| operation.id.as_str()).collect();
    assert!(ids.len() >= 11, "{ids:?}");
    let mut stamped = BTreeSet::new();
    for operation in &updates {
        let record = sample.read_back(operation).await;
        stamped.extend(NEVER_COMPARED.into_iter().filter(|name| record.get(name).is_some()));
        let before = sample.audited().await;
        let reply = sample.write(operation, record.clone()).await;
        assert_eq!(reply.status.as_u16(), 200, "{}: {} of {record}", operation.id, reply.text);
        assert_eq!(reply.json(), record, "{}", operation.id);
        assert_eq!(sample.audited().await, before, "{}", operation.id);

        let changeable = sample.changeable(operation);
        let (mut altered, mut expected) = (record.clone(), Vec::new());
        for (name, value) in record.as_object().unwrap() {
            if NEVER_COMPARED.contains(&name.as_str()) || IGNORED.contains(&name.as_str()) {
                altered[name] = another(value);
            } else if !changeable.contains(name) {
                altered[name] = another(value);
                expected.push(format!("{name} read_only"));
                let mut one = record.clone();
                one[name] = another(value);
                let reply = sample.write(operation, one).await;
                assert_eq!(reply.status.as_u16(), 400, "{} {name}: {}", operation.id, reply.text);
                assert_eq!(reply.violations(), [format!("{name} read_only")], "{}", operation.id);
            }
        }
        altered["version"] = json!(987_654_321);
        assert!(expected.len() >= 2, "{}: {expected:?}", operation.id);
        let refused = sample.write(operation, altered).await.expect(400).violations();
        assert_eq!(BTreeSet::from_iter(refused), BTreeSet::from_iter(expected), "{}", operation.id);
        // the version is checked by If-Match, and stamps are never compared
        let mut passed = record.clone();
        // the same name may be that of a field which another record lets its callers set
        let is_changeable = |name: &str| changeable.iter().any(|known| *known == name);
        let read_only = |name: &&&str| record.get(**name).is_some() && !is_changeable(name);
        for name in IGNORED.iter().chain(&NEVER_COMPARED).filter(read_only) {
            passed[*name] = another(&record[*name]);
        }
        (passed["changedAt"], passed["version"]) = (record["changedAt"].clone(), record["version"].clone());
        assert_eq!(sample.write(operation, passed).await.expect(200).json(), record, "{}", operation.id);
        // read before everything changed that the service changes
        let mut earlier = record.clone();
        for (name, value) in record.as_object().unwrap() {
            if !changeable.contains(name) && !IDENTITY.contains(&name.as_str()) {
                earlier[name] = another(value);
            }
        }
        earlier["version"] = json!(record["version"].as_i64().unwrap() - 1);
        assert_eq!(
            sample.write(operation, earlier.clone()).await.expect(200).json(),
            record,
            "{}",
            operation.id
        );
        // the same by a client that does not know the version
        earlier.as_object_mut().unwrap().remove("version");
        earlier["changedAt"] = json!("2020-02-02T02:02:02Z");
        assert_eq!(
            sample.write(operation, earlier.clone()).await.expect(200).json(),
            record,
            "{}",
            operation.id
        );
        // but it is no other record
        earlier["createdAt"] = json!("2020-02-02T02:02:02Z");
        let refused = sample.write(operation, earlier).await.expect(400).violations();
        assert_eq!(refused, ["createdAt read_only"], "{}", operation.id);
        assert_eq!(sample.audited().await, before, "{}", operation.id);
    }
    assert_eq!(stamped, BTreeSet::from(NEVER_COMPARED));
}
