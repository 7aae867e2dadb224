//! Common behaviour of all records that are created and changed with a body of fields
//! (`docs/reference/records.md#update`).

use http::Method;
use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use crate::product::MIGRATIONS;
use crate::support::Api;
use crate::support::strangers;

/// A resource of the table of `docs/reference/roles.md#permissions`.
pub(crate) struct Kind {
    /// The last part of its path.
    pub(crate) name: &'static str,
    /// Its entity type in the audit.
    pub(crate) entity: &'static str,
    /// Roles that may write it.
    pub(crate) writers: &'static [Role],
    /// Whether it belongs to an organisation.
    pub(crate) owned: bool,
    /// Whether it can be changed.
    pub(crate) changes: bool,
}

const OPERATOR: &[Role] = &[Role::Superadmin];
const OPERATOR_AND_ADMIN: &[Role] = &[Role::Superadmin, Role::Admin];
const PEOPLE: &[Role] = &[Role::Superadmin, Role::Admin, Role::User];

pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "organisation", entity: "organisation", writers: OPERATOR, owned: false, changes: true },
    Kind { name: "eshop", entity: "eshop", writers: OPERATOR_AND_ADMIN, owned: true, changes: true },
    Kind { name: "warehouse", entity: "warehouse", writers: OPERATOR, owned: true, changes: true },
    Kind { name: "wms", entity: "wms", writers: OPERATOR_AND_ADMIN, owned: true, changes: true },
    Kind { name: "supplier", entity: "supplier", writers: PEOPLE, owned: true, changes: true },
    Kind { name: "carrier", entity: "carrier", writers: OPERATOR, owned: false, changes: true },
    Kind {
        name: "carrier-service",
        entity: "carrier_service",
        writers: OPERATOR,
        owned: false,
        changes: true,
    },
    Kind {
        name: "packaging-option",
        entity: "packaging_option",
        writers: OPERATOR,
        owned: false,
        changes: false,
    },
];

/// A body that creates a record, with unique values from `number`.
pub(crate) async fn body(api: &Api, tenant: &Tenant, kind: &Kind, number: i32) -> Value {
    let organisation = tenant.organisation;
    match kind.name {
        "organisation" => json!({"name": "Organisation", "primaryCountry": "SK"}),
        "warehouse" => json!({"organisation": organisation, "name": "Warehouse", "customId": "W"}),
        "wms" => json!({
            "organisation": organisation, "name": "Wms", "distributionCenter": Uuid::nil(), "storeKey": "k",
            "internalId": "i",
        }),
        "carrier" => json!({"name": "Carrier", "code": number, "organisations": [organisation]}),
        "carrier-service" => {
            let carrier = json!({"name": "Carrier", "code": number, "organisations": [organisation]});
            let carrier = api.post(&api.superadmin, "/api/carrier", carrier).await.expect(201).json();
            json!({"carrier": carrier["id"], "name": "Service", "code": number})
        }
        "packaging-option" => json!({"code": format!("P{number}"), "name": "Option"}),
        _ => json!({"organisation": organisation, "name": "Record"}),
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_record_is_created_read_changed_and_audited(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    for (number, kind) in (1..).zip(KINDS) {
        let path = format!("/api/{}", kind.name);
        let body = body(&api, &api.tenant, kind, number).await;
        let made = api.post(&api.superadmin, &path, body.clone()).await.expect(201);
        let record = made.json();
        let place = format!("{path}/{}", record["id"].as_str().unwrap());
        assert_eq!(made.header("location"), Some(place.as_str()));
        for (field, value) in body.as_object().unwrap() {
            assert_eq!(&record[field], value, "{}.{field}", kind.name);
        }
        let read = api.get(&api.superadmin, &place).await.expect(200);
        assert_eq!(read.json(), record);
        assert_eq!(read.header("etag"), made.header("etag"));
        assert!(read.header("etag").is_some());
        let by_id = json!({"criteria": {"id": {"eq": record["id"]}}});
        let listed = api.post(&api.viewer, &format!("{path}/list"), by_id).await;
        assert_eq!(listed.expect(200).json()["results"], json!([record]));
        if kind.changes {
            let changed = api.put(&api.superadmin, &place, json!({"name": "Another"})).await.expect(200);
            assert_eq!(changed.header("location"), Some(place.as_str()));
            assert_ne!(changed.header("etag"), made.header("etag"), "{}", kind.name);
            let mut expected = record.clone();
            expected["name"] = json!("Another");
            expected["changedAt"] = changed.json()["changedAt"].clone();
            expected["version"] = json!(record["version"].as_i64().unwrap() + 1);
            assert_eq!(changed.header("etag"), Some(format!("\"{}\"", expected["version"]).as_str()));
            assert_eq!(changed.json(), expected);
            // an update without changes writes nothing
            let same = api.put(&api.superadmin, &place, json!({"name": "Another"})).await.expect(200);
            assert_eq!(same.header("etag"), changed.header("etag"));
            let stale = made.header("etag").unwrap();
            for (tag, status) in [(stale, 412), (changed.header("etag").unwrap(), 200), ("*", 200)] {
                let headers = [("if-match", tag)];
                api.call_with(&api.superadmin, Method::PUT, &place, json!({"name": "Another"}), &headers)
                    .await
                    .expect(status);
            }
        }
        let audited: Vec<(String, Value)> = sqlx::query_as(
            "SELECT action, changes FROM audit WHERE entity_type = $1 AND entity_id = $2::uuid ORDER BY id",
        )
        .bind(kind.entity)
        .bind(record["id"].as_str())
        .fetch_all(&api.services.db.main)
        .await
        .unwrap();
        assert_eq!(audited[0].0, format!("{}.create", kind.entity));
        assert_eq!(audited[0].1["name"], json!([null, record["name"]]));
        assert_eq!(audited.len(), if kind.changes { 2 } else { 1 }, "{}", kind.name);
        if kind.changes {
            assert_eq!(
                audited[1],
                (format!("{}.update", kind.entity), json!({"name": [record["name"], "Another"]}))
            );
        }
    }
}

#[tokio::test]
async fn each_role_may_do_what_the_table_says() {
    let api = Api::new(&strangers().await).await;
    let mut number = 1;
    for kind in KINDS {
        let path = format!("/api/{}", kind.name);
        number += 1;
        let first = body(&api, &api.tenant, kind, number).await;
        let record = api.post(&api.superadmin, &path, first).await.expect(201).json();
        let place = format!("{path}/{}", record["id"].as_str().unwrap());
        for (role, name) in Role::ALL {
            let token = api.tenant.token(&api.services, role).await.unwrap();
            number += 1;
            let new = body(&api, &api.tenant, kind, number).await;
            let may = kind.writers.contains(&role);
            let made = api.post(&token, &path, new).await;
            assert_eq!(made.status.as_u16(), if may { 201 } else { 403 }, "{name} {path}: {}", made.text);
            if kind.changes {
                let put = api.put(&token, &place, json!({"name": name})).await;
                assert_eq!(put.status.as_u16(), if may { 200 } else { 403 }, "{name} {path}: {}", put.text);
            }
            // roles of an organisation see their own organisation
            let is_hidden = kind.name == "organisation" && !role.sees_everything();
            // the program of a wms has no business with these
            let (read, listed) = match (role, is_hidden) {
                (Role::Warehouse, _) => (403, 403),
                (_, true) => (404, 200),
                (_, false) => (200, 200),
            };
            api.get(&token, &place).await.expect(read);
            api.post(&token, &format!("{path}/list"), Value::Null).await.expect(listed);
        }
        for call in [
            api.post("", &path, json!({})).await,
            api.put("", &place, json!({})).await,
            api.get("", &place).await,
        ] {
            // a packaging option cannot be changed, which is checked first
            let status = call.status.as_u16();
            assert!(status == 401 || (status == 405 && !kind.changes), "{path}: {status}");
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn all_violations_of_a_body_are_reported_at_once(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    for (number, kind) in (1..).zip(KINDS) {
        let path = format!("/api/{}", kind.name);
        let refused =
            api.post(&api.superadmin, &path, json!({"name": "", "colour": "red"})).await.expect(400);
        let violations = refused.violations();
        assert!(violations.contains(&"name invalid_length".to_owned()), "{path}: {violations:?}");
        assert!(violations.contains(&"colour unknown_field".to_owned()), "{path}: {violations:?}");
        assert!(violations.iter().any(|v| v.ends_with(" required")), "{path}: {violations:?}");
        for field in ["id", "createdAt", "changedAt", "version"] {
            let mut body = body(&api, &api.tenant, kind, 100 + number).await;
            body[field] = json!("x");
            let refused = api.post(&api.superadmin, &path, body).await.expect(400);
            assert_eq!(refused.violations(), [format!("{field} read_only")], "{path}");
            if kind.name == "carrier-service" {
                break;
            }
        }
        for (body, code) in [(json!([]), "wrong_type"), (json!("x"), "wrong_type"), (json!(7), "wrong_type")]
        {
            let refused = api.post(&api.superadmin, &path, body).await.expect(400);
            assert!(refused.violations().contains(&format!(" {code}")), "{path}: {}", refused.text);
        }
        api.post(&api.superadmin, &path, Value::Null).await.expect(400);
        let body = body(&api, &api.tenant, kind, 200 + number).await;
        for (name, status) in [("x".repeat(255), 201), ("x".repeat(256), 400), ("a\0b".to_owned(), 400)] {
            let mut body = body.clone();
            body["name"] = json!(name);
            api.post(&api.superadmin, &path, body).await.expect(status);
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_record_of_another_organisation_is_not_found(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    for (number, kind) in (1..).zip(KINDS) {
        let path = format!("/api/{}", kind.name);
        let theirs = body(&api, &other, kind, number).await;
        let record = api.post(&api.superadmin, &path, theirs.clone()).await.expect(201).json();
        let place = format!("{path}/{}", record["id"].as_str().unwrap());
        let is_common = kind.name == "packaging-option";
        for token in [&admin, &api.user, &api.connector] {
            api.get(token, &place).await.expect(if is_common { 200 } else { 404 });
            let list = api
                .post(token, &format!("{path}/list"), json!({"criteria": {"id": {"eq": record["id"]}}}))
                .await;
            assert_eq!(list.expect(200).json()["paging"]["total"], i32::from(is_common), "{path}");
        }
        if kind.owned && kind.writers.contains(&Role::Admin) {
            let refused = api.post(&admin, &path, theirs).await.expect(400);
            assert_eq!(refused.violations(), ["organisation unknown_reference"]);
            for body in [json!({"name": "Mine"}), json!({}), json!({"colour": "red"})] {
                let reply = api.put(&admin, &place, body).await.expect(404);
                assert_eq!(reply.json()["code"], "not_found");
            }
        }
        if kind.owned {
            // and a record never moves to another organisation
            let moved = json!({"organisation": api.tenant.organisation});
            let refused = api.put(&api.superadmin, &place, moved).await.expect(400);
            assert_eq!(refused.violations(), ["organisation not_allowed"]);
            let stays = json!({"organisation": other.organisation});
            api.put(&api.superadmin, &place, stays).await.expect(200);
        }
        if kind.changes {
            let nowhere = format!("{path}/{}", Uuid::nil());
            api.put(&api.superadmin, &nowhere, json!({"name": "x"})).await.expect(404);
            api.put(&api.superadmin, &format!("{path}/7"), json!({"name": "x"})).await.expect(400);
        }
    }
}

#[tokio::test]
async fn an_idempotency_key_creates_once() {
    let api = Api::new(&strangers().await).await;
    for (number, kind) in (1..).zip(KINDS) {
        let path = format!("/api/{}", kind.name);
        let body = body(&api, &api.tenant, kind, number).await;
        let headers = [("idempotency-key", "once")];
        let mut answers = Vec::new();
        for _ in 0..2 {
            let call = api.call_with(&api.superadmin, Method::POST, &path, body.clone(), &headers);
            answers.push(call.await.expect(201));
        }
        assert_eq!(answers[0].json(), answers[1].json(), "{path}");
        assert_eq!(answers[1].header("idempotent-replayed"), Some("true"));
    }
}
