//! Carriers, their services, and who may use them.

use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use crate::product::MIGRATIONS;
use crate::support::Api;
use crate::support::strangers;

pub(super) async fn carrier(api: &Api, name: &str, code: i32, organisations: &[Uuid]) -> String {
    let body = json!({"name": name, "code": code, "organisations": organisations});
    let made = api.post(&api.superadmin, "/api/carrier", body).await.expect(201).json();
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_carrier_is_found_by_its_code() {
    let api = Api::new(&strangers().await).await;
    let id = carrier(&api, "Gulls", 12, &[api.tenant.organisation.get()]).await;
    let hidden = carrier(&api, "Terns", 13, &[]).await;
    let found = api.get(&api.user, "/api/carrier/code/12").await.expect(200);
    assert_eq!(found.json()["id"], json!(id));
    assert!(found.header("etag").is_some());
    assert_eq!(
        api.get(&api.superadmin, "/api/carrier/code/0013").await.expect(200).json()["id"],
        json!(hidden)
    );
    for (token, code, status) in [
        (&api.user, "13", 404),
        (&api.user, "14", 404),
        (&api.user, "99999999999999999999", 404),
        (&api.user, "-1", 400),
        (&api.user, "1x", 400),
    ] {
        api.get(token, &format!("/api/carrier/code/{code}")).await.expect(status);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_field_of_a_carrier_is_validated(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let id = carrier(&api, "Gulls", 1, &[]).await;
    carrier(&api, "Terns", 2, &[]).await;
    let place = format!("/api/carrier/{id}");
    for (body, violation) in [
        (json!({"code": -1}), "code out_of_range"),
        (json!({"code": 2_147_483_648_i64}), "code out_of_range"),
        (json!({"code": "1"}), "code wrong_type"),
        (json!({"countriesOfOperation": ["CZ", "XX"]}), "countriesOfOperation[1] unknown_country"),
        (json!({"countriesOfOperation": null}), "countriesOfOperation wrong_type"),
        (json!({"organisations": [Uuid::nil()]}), "organisations[0] unknown_reference"),
        (json!({"active": "x"}), "active wrong_type"),
        (json!({"services": [Uuid::nil()]}), "services read_only"),
    ] {
        assert_eq!(api.put(&api.superadmin, &place, body).await.expect(400).violations(), [violation]);
    }
    let taken = api.put(&api.superadmin, &place, json!({"code": 2})).await.expect(400);
    assert_eq!(taken.violations(), ["code already_taken"]);
    let again = api.post(&api.superadmin, "/api/carrier", json!({"name": "x", "code": 2})).await.expect(400);
    assert_eq!(again.json()["violations"], taken.json()["violations"]);
    let other = api.get(&api.superadmin, "/api/carrier/code/2").await.expect(200).json();
    let parameters = json!({"{{ value }}": "2", "{{ id }}": other["id"]});
    assert_eq!(taken.json()["violations"][0]["parameters"], parameters);
    let body = json!({"code": 2_147_483_647, "countriesOfOperation": ["SK", "CZ"], "active": false});
    let changed = api.put(&api.superadmin, &place, body).await.expect(200).json();
    assert_eq!(changed["countriesOfOperation"], json!(["SK", "CZ"]));
    api.put(&api.superadmin, &place, json!({"code": 0})).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn organisations_are_added_and_removed_all_or_none(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let (own, theirs) = (api.tenant.organisation, other.organisation);
    let id = carrier(&api, "Gulls", 1, &[]).await;
    let place = format!("/api/carrier/{id}");
    let (add, remove) = (format!("{place}/organisation-add"), format!("{place}/organisation-remove"));
    let attached = async || {
        let read = api.get(&api.superadmin, &place).await.expect(200).json();
        read["organisations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| o.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let unknown = api.put(&api.superadmin, &add, json!([own, Uuid::nil(), "x"])).await.expect(400);
    assert_eq!(unknown.violations(), ["[2] invalid_id", "[1] unknown_reference"]);
    let unknown = api.put(&api.superadmin, &add, json!([own, Uuid::nil()])).await.expect(400);
    assert_eq!(unknown.violations(), ["[1] unknown_reference"]);
    assert!(attached().await.is_empty());
    api.get(&api.user, &place).await.expect(404);
    let mut both = vec![own.to_string(), theirs.to_string()];
    both.sort();
    for _ in 0..2 {
        assert_eq!(api.put(&api.superadmin, &add, json!([own, theirs, own])).await.expect(204).text, "");
        assert_eq!(attached().await, both);
    }
    // an organisation learns nothing about the others
    let seen = api.get(&api.user, &place).await.expect(200).json();
    assert_eq!(seen["organisations"], json!([own]));
    let unknown = api.put(&api.superadmin, &remove, json!([own, Uuid::nil()])).await.expect(400);
    assert_eq!(unknown.violations(), ["[1] unknown_reference"]);
    assert_eq!(attached().await, both);
    for _ in 0..2 {
        api.put(&api.superadmin, &remove, json!([own])).await.expect(204);
        assert_eq!(attached().await, [theirs.to_string()]);
    }
    api.get(&api.user, &place).await.expect(404);
    let actions: Vec<String> =
        sqlx::query_scalar("SELECT action FROM audit WHERE entity_id = $1::uuid ORDER BY id")
            .bind(&id)
            .fetch_all(&api.services.db.main)
            .await
            .unwrap();
    assert_eq!(actions, ["carrier.create", "carrier.organisation_add", "carrier.organisation_remove"]);
    for path in [&add, &remove] {
        for (token, status) in [(&api.user, 403), (&api.connector, 403), (&api.viewer, 403)] {
            api.put(token, path, json!([own])).await.expect(status);
        }
        api.put("", path, json!([own])).await.expect(401);
        for body in [json!([]), json!({}), json!("x")] {
            api.put(&api.superadmin, path, body).await.expect(400);
        }
        api.put(&api.superadmin, path, Value::Null).await.expect(400);
        let nowhere = path.replace(&id, &Uuid::nil().to_string());
        api.put(&api.superadmin, &nowhere, json!([own])).await.expect(404);
    }
}

#[tokio::test]
async fn a_code_is_unique_among_the_services_of_one_carrier() {
    let api = Api::new(&strangers().await).await;
    let (first, second) = (carrier(&api, "Gulls", 1, &[]).await, carrier(&api, "Terns", 2, &[]).await);
    let path = "/api/carrier-service";
    let mut ids = Vec::new();
    for (carrier, code, status) in [(&first, 1, 201), (&first, 1, 400), (&first, 2, 201), (&second, 1, 201)] {
        let body = json!({"carrier": carrier, "name": "Home", "code": code});
        let reply = api.post(&api.superadmin, path, body).await.expect(status);
        if status == 400 {
            assert_eq!(reply.violations(), ["code already_taken"]);
            assert_eq!(reply.json()["violations"][0]["parameters"]["{{ id }}"], ids[0]);
        } else {
            ids.push(reply.json()["id"].clone());
        }
    }
    let place = format!("{path}/{}", ids[1].as_str().unwrap());
    let taken = api.put(&api.superadmin, &place, json!({"code": 1})).await.expect(400);
    assert_eq!(taken.violations(), ["code already_taken"]);
    assert_eq!(taken.json()["violations"][0]["parameters"]["{{ id }}"], ids[0]);
    for (body, violation) in [
        (json!({"carrier": second}), "carrier not_allowed"),
        (json!({"code": -1}), "code out_of_range"),
        (json!({"code": null}), "code wrong_type"),
    ] {
        assert_eq!(api.put(&api.superadmin, &place, body).await.expect(400).violations(), [violation]);
    }
    let nowhere = json!({"carrier": Uuid::nil(), "name": "x", "code": 1});
    let refused = api.post(&api.superadmin, path, nowhere).await.expect(400);
    assert_eq!(refused.violations(), ["carrier unknown_reference"]);
    let shown = api.get(&api.superadmin, &format!("/api/carrier/{first}")).await.expect(200).json();
    assert_eq!(shown["services"].as_array().unwrap().len(), 2);
}
