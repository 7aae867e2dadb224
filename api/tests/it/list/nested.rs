//! Related records in place of their ids.

use crate::product::MIGRATIONS;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::fixture::{Good, eshop, list};
use crate::support::Api;
use crate::support::strangers;

#[tokio::test]
async fn nested_replaces_each_id_by_its_related_record() {
    let api = Api::new(&strangers().await).await;
    let organisation = api.tenant.organisation;
    let second = eshop(&api, organisation.get(), "Second").await;
    let good = Good { eshops: vec![api.tenant.eshop.get(), second], ..Good::new(organisation.get(), "a") };
    good.store(&api.services.db.main).await;
    Good::new(organisation.get(), "b").store(&api.services.db.main).await;
    let ask = |nested: bool| json!({"nested": nested, "sort": [{"field": "productSku"}], "limit": 10});
    let plain = list(&api, &api.user, "product", ask(false)).await;
    let nested = list(&api, &api.user, "product", ask(true)).await;
    assert_eq!(nested["paging"], plain["paging"]);
    let alone = list(&api, &api.user, "organisation", json!({"limit": 10})).await;
    let eshops = list(&api, &api.user, "eshop", json!({"limit": 10, "sort": [{"field": "id"}]})).await;
    let mut expected = plain["results"].clone();
    for record in expected.as_array_mut().unwrap() {
        record["organisation"] = alone["results"][0].clone();
    }
    expected[0]["eshops"] = eshops["results"].clone();
    assert_eq!(nested["results"], expected);
}

#[tokio::test]
async fn nested_works_with_select_and_leaves_null_unchanged() {
    let api = Api::new(&strangers().await).await;
    eshop(&api, api.tenant.organisation.get(), "Second").await;
    let body =
        json!({"nested": true, "select": ["defaultWarehouse"], "sort": [{"field": "name"}], "limit": 5});
    let answer = list(&api, &api.user, "eshop", body).await;
    assert_eq!(answer["results"][0]["defaultWarehouse"]["id"], json!(api.tenant.warehouse));
    assert_eq!(answer["results"][0]["defaultWarehouse"]["defaultWms"], json!(api.tenant.wms));
    assert_eq!(answer["results"][1], json!({"defaultWarehouse": null}));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn nested_shows_nothing_of_a_record_that_the_caller_may_not_see(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    // no use-case creates such a link; if there were one, it must not reveal records outside the scope
    let good = Good { eshops: vec![other.eshop.get()], ..Good::new(api.tenant.organisation.get(), "a") };
    good.store(&api.services.db.main).await;
    let body = json!({"nested": true, "limit": 5});
    let seen = list(&api, &api.superadmin, "product", body.clone()).await;
    assert_eq!(seen["results"][0]["eshops"][0]["name"], "Toys shop");
    let seen = list(&api, &api.user, "product", body).await;
    assert_eq!(seen["results"][0]["eshops"], json!([{"id": other.eshop}]));
}

#[tokio::test]
async fn nested_makes_each_related_record_an_object_whoever_asks() {
    let api = Api::new(&strangers().await).await;
    let organisation = api.tenant.organisation.get();
    let token = api.tenant.eshop_token(&api.services).await.unwrap();
    let second = eshop(&api, organisation, "Second").await;
    let good = Good { eshops: vec![api.tenant.eshop.get(), second], ..Good::new(organisation, "a") };
    good.store(&api.services.db.main).await;
    let ask = |nested: bool| json!({"nested": nested, "limit": 1});
    let plain = list(&api, &token, "product", ask(false)).await["results"][0].clone();
    let nested = list(&api, &token, "product", ask(true)).await["results"][0].clone();
    let id_of = |record: &Value| record["id"].clone();
    // the same records in the same order, and of the other e-shop nothing but what the record says without `nested`
    let eshops: Vec<Value> = nested["eshops"].as_array().unwrap().iter().map(id_of).collect();
    assert_eq!(json!(eshops), plain["eshops"]);
    let shown =
        |id: Uuid| nested["eshops"].as_array().unwrap().iter().find(|e| e["id"] == json!(id)).unwrap();
    assert_eq!(shown(api.tenant.eshop.get())["name"], "Gifts shop");
    assert_eq!(shown(second), &json!({"id": second}));
    assert_eq!(id_of(&nested["organisation"]), plain["organisation"]);
}
