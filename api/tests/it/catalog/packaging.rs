//! Packaging options.

use serde_json::json;

use crate::product::World;
use crate::support::strangers;

const PATH: &str = "/api/packaging-option";

#[tokio::test]
async fn a_product_has_packaging_a_or_one_that_the_operator_defined() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let product = world.add("sku", json!({})).await;
    let crate_ = json!({"packagingType": "CRATE"});
    let refused = world.post(world.body_with("new", &crate_)).await.expect(400);
    assert_eq!(refused.violations(), ["packagingType unknown_reference"]);
    let refused = world.put(&product, crate_.clone()).await.expect(400);
    assert_eq!(refused.violations(), ["packagingType unknown_reference"]);
    let option = json!({"code": "CRATE", "name": "Wooden crate"});
    api.post(&api.superadmin, PATH, option).await.expect(201);
    world.create("new", crate_.clone()).await;
    assert_eq!(world.put(&product, crate_).await.expect(200).json()["packagingType"], "CRATE");
    // codes are case-sensitive
    let other = json!({"packagingType": "crate"});
    world.put(&product, other).await.expect(400);
}

#[tokio::test]
async fn a_packaging_code_is_unique() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    for (code, status) in [("A", 400), ("B", 201), ("B", 400)] {
        let reply = api.post(&api.superadmin, PATH, json!({"code": code, "name": "x"})).await.expect(status);
        if status == 400 {
            assert_eq!(reply.violations(), ["code already_taken"]);
        }
    }
    for code in [json!(""), json!("x".repeat(256)), json!("a\0")] {
        api.post(&api.superadmin, PATH, json!({"code": code, "name": "x"})).await.expect(400);
    }
    let body =
        json!({"criteria": {"code": {"in": ["A", "B"]}}, "sort": [{"field": "code"}], "select": ["code"]});
    let listed = api.post(&api.connector, "/api/packaging-option/list", body).await.expect(200).json();
    assert_eq!(listed["results"], json!([{"code": "A"}, {"code": "B"}]));
    assert_eq!(listed["paging"]["total"], 2);
}
