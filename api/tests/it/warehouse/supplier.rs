//! Suppliers.

use crate::product::MIGRATIONS;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::support::Api;
use crate::support::strangers;

const PATH: &str = "/api/supplier";

const TEXTS: &[&str] = &[
    "companyName",
    "firstName",
    "lastName",
    "degree",
    "degree2",
    "street",
    "houseNr",
    "city",
    "zip",
    "phone",
    "email",
    "registrationNumber",
    "vatNumber",
    "ref1",
    "ref2",
    "ref3",
];

#[tokio::test]
async fn a_supplier_keeps_every_field_and_is_shown_by_its_organisation() {
    let api = Api::new(&strangers().await).await;
    let mut body = json!({
        "organisation": api.tenant.organisation, "name": "Ropes", "active": false, "country": "CZ",
        "note": "n".repeat(10_000),
    });
    for field in TEXTS {
        body[field] = json!(format!("{field}{}", "x".repeat(255 - field.len())));
    }
    let record = api.post(&api.user, PATH, body.clone()).await.expect(201).json();
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(&record[field], value, "{field}");
    }
    let place = format!("{PATH}/{}", record["id"].as_str().unwrap());
    for field in TEXTS.iter().chain(&["country", "note"]) {
        let changed = api.put(&api.user, &place, json!({*field: null})).await.expect(200).json();
        assert_eq!(changed[field], Value::Null);
    }
    for field in TEXTS {
        let refused = api.put(&api.user, &place, json!({*field: "x".repeat(256)})).await.expect(400);
        assert_eq!(refused.violations(), [format!("{field} invalid_length")]);
        let refused = api.put(&api.user, &place, json!({*field: 1})).await.expect(400);
        assert_eq!(refused.violations(), [format!("{field} wrong_type")]);
    }
    for (body, violation) in [
        (json!({"note": "n".repeat(10_001)}), "note invalid_length"),
        (json!({"country": "XX"}), "country unknown_country"),
        (json!({"active": null}), "active wrong_type"),
        (json!({"name": null}), "name wrong_type"),
    ] {
        assert_eq!(api.put(&api.user, &place, body).await.expect(400).violations(), [violation]);
    }
    let organisation = format!("/api/organisation/{}", api.tenant.organisation);
    assert_eq!(
        api.get(&api.user, &organisation).await.expect(200).json()["suppliers"],
        json!([record["id"]])
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn suppliers_are_found_by_their_fields_and_those_of_their_organisation(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    for (organisation, name) in [
        (api.tenant.organisation, "Ropes"),
        (api.tenant.organisation, "Sails"),
        (other.organisation, "Dolls"),
    ] {
        let body = json!({"organisation": organisation, "name": name, "country": "CZ"});
        api.post(&api.superadmin, PATH, body).await.expect(201);
    }
    let total = async |token: &str, criteria: Value| {
        let body = json!({"criteria": criteria, "limit": 1});
        api.post(token, "/api/supplier/list", body).await.expect(200).json()["paging"]["total"].clone()
    };
    for (criteria, own, all) in [
        (json!({}), 2, 3),
        (json!({"name": {"like": "ROP"}}), 1, 1),
        (json!({"country": {"eq": "CZ"}, "active": {"flag": true}}), 2, 3),
        (json!({"organisation.name": {"eq": "Toys"}}), 0, 1),
        (json!({"organisation": {"eq": other.organisation}}), 0, 1),
    ] {
        assert_eq!(total(&api.user, criteria.clone()).await, own, "{criteria}");
        assert_eq!(total(&api.viewer, criteria.clone()).await, all, "{criteria}");
    }
    let behind = json!({"criteria": {"suppliers.name": {"eq": "Dolls"}}});
    let list = async |token: &str| {
        api.post(token, "/api/organisation/list", behind.clone()).await.expect(200).json()["paging"]["total"]
            .clone()
    };
    assert_eq!((list(&api.user).await, list(&api.viewer).await), (json!(0), json!(1)));
    let nested = json!({"nested": true, "sort": [{"field": "name"}], "limit": 1});
    let nested = api.post(&api.user, "/api/supplier/list", nested).await.expect(200).json();
    assert_eq!(nested["results"][0]["organisation"]["name"], "Gifts");
}
