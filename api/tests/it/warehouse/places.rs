//! Warehouses and wms: two sides of one relation.

use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::Api;
use crate::support::strangers;

/// Creates another wms in these warehouses; returns its id.
async fn wms(api: &Api, warehouses: Value) -> Value {
    let body = json!({
        "organisation": api.tenant.organisation, "name": "Second", "distributionCenter": Uuid::from_u128(5),
        "storeKey": "", "internalId": "2", "warehouses": warehouses,
    });
    let made = api.post(&api.superadmin, "/api/wms", body.clone()).await.expect(201).json();
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(&made[field], value, "{field}");
    }
    made["id"].clone()
}

#[tokio::test]
async fn a_link_made_on_one_side_shows_on_both_and_raises_both_versions() {
    let api = Api::new(&strangers().await).await;
    let warehouse = format!("/api/warehouse/{}", api.tenant.warehouse);
    let read = async |path: &str| api.get(&api.user, path).await.expect(200);
    let before = read(&warehouse).await;
    let second = wms(&api, json!([api.tenant.warehouse])).await;
    let linked = read(&warehouse).await;
    assert!(linked.json()["wmses"].as_array().unwrap().contains(&second));
    assert_ne!(linked.header("etag"), before.header("etag"));
    let wms = format!("/api/wms/{}", second.as_str().unwrap());
    let before = read(&wms).await;
    let body = json!({"wmses": [api.tenant.wms]});
    api.put(&api.superadmin, &warehouse, body).await.expect(200);
    let unlinked = read(&wms).await;
    assert_eq!(unlinked.json()["warehouses"], json!([]));
    assert_ne!(unlinked.header("etag"), before.header("etag"));
    let body = json!({"wmses": [second, api.tenant.wms], "defaultWms": second});
    let both = api.put(&api.superadmin, &warehouse, body).await.expect(200).json();
    assert_eq!(both["defaultWms"], second);
    assert_eq!(read(&wms).await.json()["warehouses"], json!([api.tenant.warehouse]));
    let organisation = read(&format!("/api/organisation/{}", api.tenant.organisation)).await.json();
    assert!(organisation["wmses"].as_array().unwrap().contains(&second));
}

#[tokio::test]
async fn a_default_wms_works_in_its_warehouse_whichever_side_is_changed() {
    let api = Api::new(&strangers().await).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let warehouse = format!("/api/warehouse/{}", api.tenant.warehouse);
    let wms = format!("/api/wms/{}", api.tenant.wms);
    for (path, body, violation) in [
        (&warehouse, json!({"wmses": []}), "defaultWms not_allowed"),
        (&warehouse, json!({"defaultWms": other.wms}), "defaultWms not_allowed"),
        (&warehouse, json!({"wmses": [api.tenant.wms, other.wms]}), "wmses[1] unknown_reference"),
        (&warehouse, json!({"customId": "x".repeat(256)}), "customId invalid_length"),
        (&warehouse, json!({"defaultWms": "x"}), "defaultWms invalid_id"),
        (&wms, json!({"warehouses": []}), "warehouses not_allowed"),
        (&wms, json!({"warehouses": [api.tenant.warehouse, Uuid::nil()]}), "warehouses[1] unknown_reference"),
        (&wms, json!({"distributionCenter": null}), "distributionCenter wrong_type"),
        (&wms, json!({"storeKey": "x".repeat(256)}), "storeKey invalid_length"),
        (&wms, json!({"internalId": 7}), "internalId wrong_type"),
    ] {
        let refused = api.put(&api.superadmin, path, body).await.expect(400);
        assert_eq!(refused.violations(), [violation]);
    }
    api.put(&api.superadmin, &warehouse, json!({"defaultWms": null})).await.expect(200);
    api.put(&api.superadmin, &wms, json!({"warehouses": []})).await.expect(200);
    assert_eq!(api.get(&api.user, &warehouse).await.json()["wmses"], json!([]));
}
