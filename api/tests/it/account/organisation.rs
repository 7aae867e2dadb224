//! Organisations.

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use crate::product::{MIGRATIONS, World};
use crate::support::Api;
use crate::support::strangers;

const PATH: &str = "/api/organisation";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_organisation_stores_every_field(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let (owner, another) = (Uuid::from_u128(7), Uuid::from_u128(3));
    let body = json!({
        "name": "Harbour", "registrationNumber": "1", "vatNumber": "CZ1", "addressLine1": "a", "addressLine2": "b",
        "addressLine3": "c", "primaryCountry": "CZ", "owner": owner, "owners": [owner, another], "active": false,
        "code": "H", "automaticExchangeEnabled": true, "ignoreAddressValidation": true,
        "stockAdviceCloseInterval": 30,
    });
    let record = api.post(&api.superadmin, PATH, body.clone()).await.expect(201).json();
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(&record[field], value, "{field}");
    }
    assert_eq!((&record["wmses"], &record["suppliers"]), (&json!([]), &json!([])));
    let place = format!("{PATH}/{}", record["id"].as_str().unwrap());
    let cleared =
        json!({"owner": null, "owners": [], "code": null, "stockAdviceCloseInterval": null, "active": true});
    let changed = api.put(&api.superadmin, &place, cleared.clone()).await.expect(200).json();
    for (field, value) in cleared.as_object().unwrap() {
        assert_eq!(&changed[field], value, "{field}");
    }
    assert_eq!(changed["name"], "Harbour");
    let least =
        api.post(&api.superadmin, PATH, json!({"name": "L", "primaryCountry": "SK"})).await.expect(201);
    let expected = json!({
        "registrationNumber": "", "vatNumber": "", "addressLine1": "", "owner": null, "owners": [], "active": true,
        "code": null, "automaticExchangeEnabled": false, "stockAdviceCloseInterval": null,
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&least.json()[field], value, "{field}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_field_of_an_organisation_is_validated_on_both_sides_of_its_bounds(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let place = format!("{PATH}/{}", api.tenant.organisation);
    let long = |n: usize| json!("x".repeat(n));
    for (field, value, code) in [
        ("registrationNumber", long(255), None),
        ("registrationNumber", long(256), Some("invalid_length")),
        ("vatNumber", long(256), Some("invalid_length")),
        ("addressLine1", long(255), None),
        ("addressLine3", long(256), Some("invalid_length")),
        ("name", Value::Null, Some("wrong_type")),
        ("primaryCountry", json!("SK"), None),
        ("primaryCountry", json!("XX"), Some("unknown_country")),
        ("primaryCountry", json!("SVK"), Some("invalid_length")),
        ("owner", json!("me"), Some("invalid_id")),
        ("owners", json!("me"), Some("wrong_type")),
        ("active", json!(1), Some("wrong_type")),
        ("automaticExchangeEnabled", Value::Null, Some("wrong_type")),
        ("ignoreAddressValidation", json!("no"), Some("wrong_type")),
        ("stockAdviceCloseInterval", json!(0), None),
        ("stockAdviceCloseInterval", json!(36_500), None),
        ("stockAdviceCloseInterval", json!(36_501), Some("out_of_range")),
        ("stockAdviceCloseInterval", json!(-1), Some("out_of_range")),
        ("stockAdviceCloseInterval", json!(1.5), Some("wrong_type")),
        // read-only members; it has a wms and no supplier
        ("wmses", json!([]), Some("read_only")),
        ("suppliers", json!(["x"]), Some("read_only")),
        ("suppliers", json!([]), None),
    ] {
        let reply = api.put(&api.superadmin, &place, json!({field: value})).await;
        match code {
            None => {
                reply.expect(200);
            }
            Some(code) => assert_eq!(reply.expect(400).violations(), [format!("{field} {code}")], "{value}"),
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_eshop_of_an_organisation_gets_its_changes(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let second = world.eshop().await;
    for eshop in [api.tenant.eshop, second.into()] {
        world.webhook(eshop.get(), "organization_change").await;
    }
    world.webhook(second, "product_change").await;
    let (stranger, _) = world.stranger().await;
    let place = format!("{PATH}/{}", api.tenant.organisation);
    api.put(&api.superadmin, &place, json!({"vatNumber": "CZ2"})).await.expect(200);
    // not of an update without changes, nor of another organisation
    api.put(&api.superadmin, &place, json!({"vatNumber": "CZ2"})).await.expect(200);
    let theirs = format!("{PATH}/{}", stranger.organisation);
    api.put(&api.superadmin, &theirs, json!({"vatNumber": "CZ3"})).await.expect(200);
    assert_eq!(world.count("SELECT count(*) FROM event WHERE type = 'organization_change'").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM delivery").await, 2);
    let expected = json!({
        "id": api.tenant.organisation, "name": "Gifts", "changedFields": ["vatNumber"], "fields": {"vatNumber": "CZ2"},
        // its wms had increased it once
        "version": 3,
    });
    assert_eq!(world.last_event().await, expected);
}

#[tokio::test]
async fn a_new_supplier_or_wms_increases_the_version_of_its_organisation() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let organisation = api.tenant.organisation;
    let place = format!("{PATH}/{organisation}");
    let mut before = api.get(&api.superadmin, &place).await.expect(200);
    for (path, member, body) in [
        ("/api/supplier", "suppliers", json!({"organisation": organisation, "name": "Potter"})),
        (
            "/api/wms",
            "wmses",
            json!({"organisation": organisation, "name": "Second", "distributionCenter": Uuid::nil(), "storeKey": "",
                "internalId": "2"}),
        ),
    ] {
        let made = api.post(&api.superadmin, path, body).await.expect(201).json();
        let after = api.get(&api.superadmin, &place).await.expect(200);
        assert!(after.json()[member].as_array().unwrap().contains(&made["id"]), "{path}");
        assert_ne!(after.header("etag"), before.header("etag"), "{path}");
        // a polling client finds it, and a conditional read gets the new version
        let query = json!({"criteria": {"changedAt": {"gt": before.json()["changedAt"]}}, "limit": 10});
        let listed = api.post(&api.superadmin, "/api/organisation/list", query).await.expect(200).json();
        assert_eq!(listed["results"][0]["id"], json!(organisation), "{path}");
        let stale = [("if-match", before.header("etag").unwrap())];
        let edit = json!({"vatNumber": "CZ9"});
        api.call_with(&api.superadmin, Method::PUT, &place, edit, &stale).await.expect(412);
        // its own change shows nothing new in the organisation
        let one = format!("{path}/{}", made["id"].as_str().unwrap());
        api.put(&api.superadmin, &one, json!({"name": "Other"})).await.expect(200);
        let same = api.get(&api.superadmin, &place).await.expect(200);
        assert_eq!(same.header("etag"), after.header("etag"), "{path}");
        before = after;
    }
}
