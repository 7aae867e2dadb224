//! E-shops.

use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::Api;
use crate::support::strangers;

const PATH: &str = "/api/eshop";

#[tokio::test]
async fn an_eshop_stores_every_field() {
    let api = Api::new(&strangers().await).await;
    let body = json!({
        "organisation": api.tenant.organisation, "name": "Pier", "defaultWarehouse": api.tenant.warehouse,
        "warehouses": [api.tenant.warehouse], "active": false, "partners": [{"name": "b", "ids": [1]}, {}],
        "salesChannelId": "s", "waitBeforeProcessing": true, "editBeforeProcessing": true,
        "integrationType": "baselinker",
    });
    let record = api.post(&api.superadmin, PATH, body.clone()).await.expect(201).json();
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(&record[field], value, "{field}");
    }
    let place = format!("{PATH}/{}", record["id"].as_str().unwrap());
    let cleared = json!({
        "defaultWarehouse": null, "warehouses": [], "partners": null, "salesChannelId": null, "integrationType": null,
    });
    let changed = api.put(&api.superadmin, &place, cleared.clone()).await.expect(200).json();
    for (field, value) in cleared.as_object().unwrap() {
        assert_eq!(&changed[field], value, "{field}");
    }
}

#[tokio::test]
async fn warehouses_belong_to_the_organisation_and_the_default_is_one_of_them() {
    let api = Api::new(&strangers().await).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let own = api.tenant.warehouse;
    let place = format!("{PATH}/{}", api.tenant.eshop);
    for (body, violations) in [
        (json!({"warehouses": [own, other.warehouse]}), vec!["warehouses[1] unknown_reference"]),
        (json!({"warehouses": [own, Uuid::nil()]}), vec!["warehouses[1] unknown_reference"]),
        (json!({"defaultWarehouse": other.warehouse}), vec!["defaultWarehouse not_allowed"]),
        (json!({"warehouses": []}), vec!["defaultWarehouse not_allowed"]),
        (
            json!({"warehouses": [other.warehouse], "name": ""}),
            vec!["name invalid_length", "warehouses[0] unknown_reference", "defaultWarehouse not_allowed"],
        ),
    ] {
        let refused = api.put(&api.superadmin, &place, body).await.expect(400);
        assert_eq!(refused.violations(), violations);
    }
    let kept = api.put(&api.superadmin, &place, json!({"warehouses": [own, own]})).await.expect(200).json();
    assert_eq!(kept["warehouses"], json!([own]));
    let emptied = json!({"warehouses": [], "defaultWarehouse": null});
    api.put(&api.superadmin, &place, emptied).await.expect(200);
}

#[tokio::test]
async fn each_field_of_an_eshop_is_validated() {
    let api = Api::new(&strangers().await).await;
    let place = format!("{PATH}/{}", api.tenant.eshop);
    for (body, violation) in [
        (json!({"integrationType": "ftp"}), "integrationType not_allowed"),
        (json!({"partners": {}}), "partners wrong_type"),
        (json!({"partners": [{}, 7]}), "partners[1] wrong_type"),
        (json!({"partners": [{"a": ["b\0"]}]}), "partners[0] invalid_character"),
        (json!({"partners": vec![json!({}); 101]}), "partners invalid_count"),
        (json!({"salesChannelId": "x".repeat(256)}), "salesChannelId invalid_length"),
        (json!({"active": null}), "active wrong_type"),
        (json!({"waitBeforeProcessing": 1}), "waitBeforeProcessing wrong_type"),
        (json!({"editBeforeProcessing": "x"}), "editBeforeProcessing wrong_type"),
        (json!({"warehouses": ["x"]}), "warehouses[0] invalid_id"),
        (json!({"defaultWarehouse": 1}), "defaultWarehouse wrong_type"),
        (json!({"name": Value::Null}), "name wrong_type"),
    ] {
        let refused = api.put(&api.superadmin, &place, body).await.expect(400);
        assert_eq!(refused.violations(), [violation]);
    }
    let most = json!({"partners": vec![json!({}); 100], "integrationType": "feed", "salesChannelId": "x".repeat(255)});
    api.put(&api.superadmin, &place, most).await.expect(200);
}

#[tokio::test]
async fn numbers_in_partners_stay_unchanged_when_other_fields_change() {
    let api = Api::new(&strangers().await).await;
    let place = format!("{PATH}/{}", api.tenant.eshop);
    let partners =
        json!([{"numbers": [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, 0.1, 1e22, u64::MAX, i64::MIN]}]);
    for body in
        [json!({"partners": partners}), json!({"name": "Another"}), json!({"waitBeforeProcessing": true})]
    {
        let shown = api.put(&api.superadmin, &place, body).await.expect(200).json();
        assert_eq!(shown["partners"], partners);
    }
}
