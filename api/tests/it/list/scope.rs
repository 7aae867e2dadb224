//! Callers see the records of their scope, and nothing of others.

use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::fixture::{Good, MIGRATIONS, eshop, list};
use crate::support::Api;
use crate::support::strangers;

fn names(answer: &Value, field: &str) -> Vec<String> {
    answer["results"].as_array().unwrap().iter().map(|r| r[field].as_str().unwrap().to_owned()).collect()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn records_of_another_tenant_are_in_no_result_total_or_path(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let db = &api.services.db.main;
    let mine =
        Good { eshops: vec![api.tenant.eshop.get()], ..Good::new(api.tenant.organisation.get(), "mine") };
    let theirs = Good { eshops: vec![other.eshop.get()], ..Good::new(other.organisation.get(), "theirs") };
    // a link that no use-case creates
    let crossed = Good {
        eshops: vec![api.tenant.eshop.get(), other.eshop.get()],
        ..Good::new(api.tenant.organisation.get(), "crossed")
    };
    for good in [&mine, &theirs, &crossed] {
        good.store(db).await;
    }
    let sees = async |token: &str, body: Value| {
        let answer = list(&api, token, "product", body).await;
        let mut seen = names(&answer, "productSku");
        seen.sort();
        (seen.join(" "), answer["paging"]["total"].as_i64().unwrap())
    };
    for everything in [&api.superadmin, &api.viewer] {
        assert_eq!(sees(everything, json!({"limit": 9})).await, ("crossed mine theirs".to_owned(), 3));
    }
    for own in [&api.user, &api.connector] {
        assert_eq!(sees(own, json!({"limit": 9})).await, ("crossed mine".to_owned(), 2));
        assert_eq!(sees(own, Value::Null).await, ("crossed mine".to_owned(), 2));
        assert_eq!(list(&api, own, "product", json!({"limit": 0})).await["paging"]["total"], 2);
        let id = json!({"limit": 9, "criteria": {"id": {"in": [mine.id, theirs.id]}}});
        assert_eq!(sees(own, id).await, ("mine".to_owned(), 1));
        let behind = json!({"criteria": {"eshops.name": {"eq": "Toys shop"}}});
        assert_eq!(sees(own, behind).await, (String::new(), 0));
        let behind = json!({"criteria": {"eshops.organisation.name": {"eq": "Toys"}}});
        assert_eq!(sees(own, behind).await, (String::new(), 0));
    }
    let behind = json!({"criteria": {"eshops.organisation.name": {"eq": "Toys"}}});
    assert_eq!(sees(&api.superadmin, behind).await, ("crossed theirs".to_owned(), 2));
    for resource in ["organisation", "eshop", "warehouse", "wms"] {
        assert_eq!(list(&api, &api.user, resource, Value::Null).await["paging"]["total"], 1, "{resource}");
        assert_eq!(list(&api, &api.viewer, resource, Value::Null).await["paging"]["total"], 2, "{resource}");
    }
    api.get(&api.user, &format!("/api/product/{}", theirs.id)).await.expect(404);
    api.get(&api.superadmin, &format!("/api/product/{}", theirs.id)).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_connector_of_one_eshop_sees_its_products(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let second = eshop(&api, api.tenant.organisation.get(), "Second").await;
    let db = &api.services.db.main;
    let here =
        Good { eshops: vec![api.tenant.eshop.get()], ..Good::new(api.tenant.organisation.get(), "here") };
    let there = Good { eshops: vec![second], ..Good::new(api.tenant.organisation.get(), "there") };
    for good in [&here, &there] {
        good.store(db).await;
        sqlx::query(
            "INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
             VALUES (uuid_v7(), $1, $2, $3, $4, 1)",
        )
        .bind(api.tenant.organisation)
        .bind(good.id)
        .bind(api.tenant.warehouse)
        .bind(api.tenant.wms)
        .execute(db)
        .await
        .unwrap();
    }
    let bound = api.tenant.eshop_token(&api.services).await.unwrap();
    let products = list(&api, &bound, "product", Value::Null).await;
    assert_eq!(names(&products, "productSku"), ["here"]);
    let stocks = list(&api, &bound, "product-stock", Value::Null).await;
    assert_eq!(names(&stocks, "product"), [here.id.to_string()]);
    let eshops = list(&api, &bound, "eshop", Value::Null).await;
    assert_eq!(names(&eshops, "name"), ["Gifts shop"]);
    for (resource, count) in [("organisation", 1), ("warehouse", 1), ("wms", 1)] {
        assert_eq!(list(&api, &bound, resource, Value::Null).await["paging"]["total"], count, "{resource}");
    }
    api.get(&bound, &format!("/api/product/{}", here.id)).await.expect(200);
    api.get(&bound, &format!("/api/product/{}", there.id)).await.expect(404);
}

#[tokio::test]
async fn every_list_requires_a_token() {
    let api = Api::new(&strangers().await).await;
    for resource in ["organisation", "eshop", "warehouse", "wms", "product", "product-stock", "job"] {
        api.post("", &format!("/api/{resource}/list"), Value::Null).await.expect(401);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_caller_that_may_not_see_a_record_cannot_query_its_links(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    // an e-shop of the same organisation and warehouse, to which the connector is not bound
    let db = &api.services.db.main;
    let second = eshop(&api, api.tenant.organisation.get(), "Second").await;
    for eshop in [api.tenant.eshop, second.into()] {
        sqlx::query(
            "INSERT INTO eshop_warehouse (eshop_id, warehouse_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        )
        .bind(eshop)
        .bind(api.tenant.warehouse)
        .execute(db)
        .await
        .unwrap();
    }
    let bound = api.tenant.eshop_token(&api.services).await.unwrap();
    let warehouses = async |token: &str, eshop: uuid::Uuid| {
        let body = json!({"criteria": {"eshops": {"eq": eshop}}});
        list(&api, token, "warehouse", body).await["paging"]["total"].as_i64().unwrap()
    };
    assert_eq!((warehouses(&bound, api.tenant.eshop.get()).await, warehouses(&bound, second).await), (1, 0));
    assert_eq!(
        (warehouses(&api.user, api.tenant.eshop.get()).await, warehouses(&api.user, second).await),
        (1, 1)
    );
    // an admin of both organisations, who is visible to an admin of one of them
    let shared = json!({
        "email": "ann@example.com", "firstName": "Ann", "lastName": "Ops", "role": "admin", "active": true,
        "password": "correct horse battery", "organisations": [api.tenant.organisation, other.organisation],
    });
    api.post(&api.superadmin, "/api/admin", shared).await.expect(201);
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let admins = async |token: &str, organisation: uuid::Uuid| {
        let body = json!({"criteria": {"organisations": {"eq": organisation}}});
        list(&api, token, "admin", body).await
    };
    let seen = admins(&admin, api.tenant.organisation.get()).await;
    assert_eq!(seen["results"][0]["organisations"], json!([api.tenant.organisation]));
    assert_eq!(admins(&admin, other.organisation.get()).await["paging"]["total"], 0);
    assert_eq!(admins(&api.superadmin, other.organisation.get()).await["paging"]["total"], 1);
}
