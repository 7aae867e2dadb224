//! Every operator on every kind of field.

use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::fixture::{Good, MIGRATIONS, at, eshop, skus};
use crate::support::Api;
use crate::support::strangers;

const GROUP: Uuid = Uuid::from_u128(7);
const OTHER: Uuid = Uuid::from_u128(8);

/// Four products: `a` has all fields, `b` no optional ones, `c` and `d` some values of their own.
async fn shop(api: &Api) -> Uuid {
    let organisation = api.tenant.organisation;
    let second = eshop(api, organisation.get(), "Second").await;
    let good =
        |sku: &str| Good { eshops: vec![api.tenant.eshop.get()], ..Good::new(organisation.get(), sku) };
    let goods = [
        Good {
            name: "Red Apple 100%".to_owned(),
            description: Some("fruit".to_owned()),
            group: Some(GROUP),
            weight: Some(100),
            references: vec!["r1".to_owned(), "r2".to_owned()],
            eshops: vec![api.tenant.eshop.get(), second],
            created_at: at("2026-03-01T00:00:00Z"),
            ..good("a")
        },
        Good { active: false, name: "bread_roll".to_owned(), ..good("b") },
        Good {
            group: Some(OTHER),
            weight: Some(200),
            name: r"back\slash äpfel".to_owned(),
            eshops: vec![second],
            created_at: at("2026-02-01T00:00:00.000001Z"),
            ..good("c")
        },
        Good {
            weight: Some(0),
            description: Some("Fruit juice".to_owned()),
            references: vec!["r2".to_owned()],
            kind: "virtual",
            ..good("d")
        },
    ];
    for good in &goods {
        good.store(&api.services.db.main).await;
    }
    second
}

async fn check(api: &Api, cases: Vec<(Value, &str)>) {
    for (criteria, expected) in cases {
        assert_eq!(skus(api, criteria.clone()).await.concat(), expected, "{criteria}");
    }
}

#[tokio::test]
async fn every_operator_works_on_every_kind() {
    let api = Api::new(&strangers().await).await;
    let second = shop(&api).await;
    let first = api.tenant.eshop;
    let of = |field: &str, operator: &str, value: Value| json!({field: {operator: value}});
    let cases = vec![
        // ids; null matches no comparison
        (of("productGroup", "eq", json!(GROUP)), "a"),
        (of("productGroup", "neq", json!(GROUP)), "c"),
        (of("productGroup", "in", json!([GROUP, OTHER])), "ac"),
        (of("productGroup", "in", json!([])), ""),
        (of("productGroup", "nin", json!([GROUP])), "c"),
        (of("productGroup", "nin", json!([])), "ac"),
        (of("productGroup", "null", json!(true)), "bd"),
        (of("productGroup", "null", json!(false)), "ac"),
        (of("organisation", "eq", json!(api.tenant.organisation)), "abcd"),
        (of("organisation", "neq", json!(api.tenant.organisation)), ""),
        // strings
        (of("description", "eq", json!("fruit")), "a"),
        (of("description", "neq", json!("fruit")), "d"),
        (of("description", "in", json!(["fruit", "Fruit juice"])), "ad"),
        (of("description", "nin", json!(["fruit"])), "d"),
        (of("description", "nin", json!([])), "ad"),
        (of("description", "like", json!("FRUIT")), "ad"),
        (of("description", "notLike", json!("juice")), "a"),
        (of("description", "null", json!(true)), "bc"),
        (of("description", "null", json!(false)), "ad"),
        // clients write a % at either end for "contains"; elsewhere it is a literal character
        (of("name", "like", json!("%")), "abcd"),
        (of("name", "like", json!("%apple%")), "a"),
        (of("name", "like", json!("%apple")), "a"),
        (of("name", "like", json!("apple%")), "a"),
        (of("name", "like", json!("%%%")), "a"),
        (of("name", "like", json!("%0%%")), "a"),
        (of("name", "like", json!("0%%")), "a"),
        (of("name", "like", json!("d%A")), ""),
        (of("name", "notLike", json!("%apple%")), "bcd"),
        (of("name", "like", json!(100)), "a"),
        (of("name", "like", json!(100.0)), "a"),
        (of("name", "notLike", json!(100)), "bcd"),
        (of("name", "like", json!(format!("%{}%", "x".repeat(255)))), ""),
        (of("name", "like", json!("_")), "b"),
        (of("name", "like", json!("\\")), "c"),
        (of("name", "like", json!("ÄPF")), "c"),
        (of("name", "like", json!("")), "abcd"),
        // numbers
        (of("weight", "eq", json!(100)), "a"),
        (of("weight", "eq", json!(i64::MAX)), ""),
        (of("weight", "neq", json!(100)), "cd"),
        (of("weight", "in", json!([0, 200, -1])), "cd"),
        (of("weight", "nin", json!([0, 200])), "a"),
        (of("weight", "gt", json!(100)), "c"),
        (of("weight", "gte", json!(100)), "ac"),
        (of("weight", "lt", json!(100)), "d"),
        (of("weight", "lte", json!(100)), "ad"),
        (of("weight", "null", json!(true)), "b"),
        (of("weight", "null", json!(false)), "acd"),
        (json!({"weight": {"gt": 0, "lt": 200}}), "a"),
        // timestamps, to the microsecond and in any offset
        (of("createdAt", "eq", json!("2026-03-01T01:00:00+01:00")), "a"),
        (of("createdAt", "neq", json!("2026-01-01T00:00:00Z")), "ac"),
        (of("createdAt", "in", json!(["2026-02-01T00:00:00.000001Z"])), "c"),
        (of("createdAt", "nin", json!(["2026-01-01T00:00:00Z"])), "ac"),
        (of("createdAt", "gt", json!("2026-02-01T00:00:00.000001Z")), "a"),
        (of("createdAt", "gte", json!("2026-02-01T00:00:00.000001Z")), "ac"),
        (of("createdAt", "lt", json!("2026-02-01T00:00:00.000001Z")), "bd"),
        (of("createdAt", "lte", json!("2026-02-01T00:00:00.000001Z")), "bcd"),
        (of("changedAt", "null", json!(true)), ""),
        (of("changedAt", "null", json!(false)), "abcd"),
        // booleans
        (of("active", "eq", json!(false)), "b"),
        (of("active", "neq", json!(false)), "acd"),
        (of("active", "flag", json!(true)), "acd"),
        (of("active", "flag", json!(false)), "b"),
        (of("active", "null", json!(true)), ""),
        (of("active", "null", json!(false)), "abcd"),
        // arrays: "contains"
        (of("eshops", "eq", json!(second)), "ac"),
        (of("eshops", "in", json!([first, second])), "abcd"),
        (of("eshops", "in", json!([])), ""),
        (of("referenceNumbers", "eq", json!("r2")), "ad"),
        (of("referenceNumbers", "in", json!(["r1", "x"])), "a"),
        (of("images", "eq", json!(GROUP)), ""),
        // all fields and operators must match
        (json!({"weight": {"null": false}, "active": {"eq": true}, "type": {"neq": "virtual"}}), "ac"),
        (json!({}), "abcd"),
        // a field without conditions
        (json!({"name": {}, "weight": {"eq": 100}, "eshops.name": {}, "childrenProducts": {}}), "a"),
        // a whole number in any notation
        (of("weight", "in", json!([100.0, 2e2])), "ac"),
    ];
    check(&api, cases).await;
}

#[tokio::test]
async fn an_in_accepts_ten_thousand_values_and_not_one_more() {
    let api = Api::new(&strangers().await).await;
    shop(&api).await;
    let values =
        |count: i64| json!({"criteria": {"weight": {"in": (0..count).collect::<Vec<_>>()}}, "limit": 10});
    let answer = api.post(&api.user, "/api/product/list", values(10_000)).await.expect(200).json();
    assert_eq!(answer["paging"]["total"], 3);
    let refused = api.post(&api.user, "/api/product/list", values(10_001)).await.expect(400);
    assert_eq!(refused.violations(), ["criteria.weight.in invalid_count"]);
}

#[tokio::test]
async fn empty_members_count_as_absent_and_an_order_is_accepted_in_any_case() {
    let api = Api::new(&strangers().await).await;
    shop(&api).await;
    let list = async |body: Value| {
        let answer = api.post(&api.user, "/api/product/list", body).await.expect(200).json();
        answer["results"].as_array().unwrap().clone()
    };
    let all = list(json!({})).await;
    assert_eq!(list(json!({"select": [], "sort": [], "criteria": {}, "limit": 10.0})).await, all);
    for order in ["desc", "DESC", "Desc"] {
        let down = list(json!({"sort": [{"field": "productSku", "order": order}]})).await;
        assert_eq!(down.iter().map(|p| p["productSku"].as_str().unwrap()).collect::<String>(), "dcba");
    }
    let up = list(json!({"sort": [{"field": "productSku", "order": "asc"}]})).await;
    assert_eq!(up[0]["productSku"], "a");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn warehouses_are_found_by_their_eshops_without_showing_them(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let organisation = api.tenant.organisation;
    let second = eshop(&api, organisation.get(), "Second").await;
    let count = async |path: &str, criteria: Value| {
        let answer = api.post(&api.user, path, json!({"criteria": criteria, "limit": 10})).await.expect(200);
        answer.json()["paging"]["total"].clone()
    };
    let path = "/api/warehouse/list";
    let shown = api.post(&api.user, path, json!({"nested": true, "limit": 1})).await.expect(200).json();
    assert!(shown["results"][0].get("eshops").is_none(), "{shown}");
    let one =
        api.get(&api.user, &format!("/api/warehouse/{}", api.tenant.warehouse)).await.expect(200).json();
    assert!(one.get("eshops").is_none(), "{one}");
    assert_eq!(count(path, json!({"eshops": {"eq": api.tenant.eshop}})).await, 1);
    assert_eq!(count(path, json!({"eshops": {"in": [second, api.tenant.eshop]}})).await, 1);
    assert_eq!(count(path, json!({"eshops": {"eq": second}})).await, 0);
    assert_eq!(count(path, json!({"eshops.name": {"eq": "Second"}})).await, 0);
    let eshop = api.get(&api.user, &format!("/api/eshop/{}", api.tenant.eshop)).await.expect(200).json();
    assert_eq!(count(path, json!({"eshops.name": {"eq": eshop["name"]}})).await, 1);
    let refused = api.post(&api.user, path, json!({"select": ["eshops"]})).await.expect(400);
    assert_eq!(refused.violations(), ["select[0] unknown_field"]);
    let refused = api.post(&api.user, path, json!({"sort": [{"field": "eshops"}]})).await.expect(400);
    assert_eq!(refused.violations(), ["sort[0].field not_sortable"]);
    // and stocks by their warehouse
    let product = Good::new(organisation.get(), "a");
    product.store(&api.services.db.main).await;
    sqlx::query(
        "INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
         SELECT uuid_v7(), organisation_id, id, $1, $2, 7 FROM product",
    )
    .bind(api.tenant.warehouse)
    .bind(api.tenant.wms)
    .execute(&api.services.db.main)
    .await
    .unwrap();
    let path = "/api/product-stock/list";
    assert_eq!(count(path, json!({"warehouse.eshops": {"eq": api.tenant.eshop}})).await, 1);
    assert_eq!(count(path, json!({"warehouse.eshops": {"eq": second}})).await, 0);
    assert_eq!(count(path, json!({"warehouse.eshops.name": {"eq": eshop["name"]}})).await, 1);
}

#[tokio::test]
async fn a_json_field_can_only_be_tested_for_null() {
    let api = Api::new(&strangers().await).await;
    let ask = |value: bool| json!({"criteria": {"partners": {"null": value}}});
    let names = |answer: Value| answer["results"].as_array().unwrap().len();
    assert_eq!(names(api.post(&api.user, "/api/eshop/list", ask(true)).await.expect(200).json()), 1);
    assert_eq!(names(api.post(&api.user, "/api/eshop/list", ask(false)).await.expect(200).json()), 0);
    let refused = api.post(&api.user, "/api/eshop/list", json!({"criteria": {"partners": {"eq": []}}})).await;
    assert_eq!(refused.expect(400).violations(), ["criteria.partners.eq unknown_operator"]);
}
