//! Callers see the carriers of their organisations: in results, in `total`, in dotted paths and nested.

use crate::product::MIGRATIONS;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::carrier::carrier;
use crate::support::Api;

/// The names in a list, and its total.
async fn names(api: &Api, token: &str, resource: &str, body: Value) -> (Vec<String>, Value) {
    let answer = api.post(token, &format!("/api/{resource}/list"), body).await.expect(200).json();
    let results = answer["results"].as_array().unwrap();
    let names = results.iter().map(|r| r["name"].as_str().unwrap().to_owned()).collect();
    (names, answer["paging"]["total"].clone())
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn carriers_and_services_are_visible_to_organisations_that_may_use_them(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let (own, theirs) = (api.tenant.organisation, other.organisation);
    let carriers = [
        carrier(&api, "c-both", 1, &[own.get(), theirs.get()]).await,
        carrier(&api, "b-theirs", 2, &[theirs.get()]).await,
        carrier(&api, "a-own", 3, &[own.get()]).await,
        carrier(&api, "d-nobody", 4, &[]).await,
    ];
    for (number, id) in carriers.iter().enumerate() {
        let body = json!({"carrier": id, "name": format!("s{}", 9 - number), "code": number});
        api.post(&api.superadmin, "/api/carrier-service", body).await.expect(201);
    }
    let bound = api.tenant.eshop_token(&api.services).await.unwrap();
    // the default order is by name
    for token in [&api.user, &api.connector, &bound] {
        for body in [Value::Null, json!({"limit": 10})] {
            let expected = (vec!["a-own".to_owned(), "c-both".to_owned()], json!(2));
            assert_eq!(names(&api, token, "carrier", body.clone()).await, expected);
            let expected = (vec!["s7".to_owned(), "s9".to_owned()], json!(2));
            assert_eq!(names(&api, token, "carrier-service", body).await, expected);
        }
        let total = names(&api, token, "carrier", json!({"limit": 0})).await.1;
        assert_eq!(total, 2);
    }
    for token in [&api.superadmin, &api.viewer] {
        let all = ["a-own", "b-theirs", "c-both", "d-nobody"].map(str::to_owned).to_vec();
        assert_eq!(names(&api, token, "carrier", json!({"limit": 10})).await, (all, json!(4)));
        assert_eq!(names(&api, token, "carrier-service", json!({"limit": 1})).await.1, 4);
    }
    for (resource, criteria, own_total, all_total) in [
        ("carrier", json!({"organisations.name": {"eq": "Toys"}}), 0, 2),
        ("carrier", json!({"organisations": {"eq": theirs}}), 0, 2),
        ("carrier", json!({"organisations": {"in": [own, theirs]}}), 2, 3),
        ("carrier", json!({"services.name": {"like": "s"}}), 2, 4),
        ("carrier", json!({"services.carrier.name": {"eq": "c-both"}}), 1, 1),
        ("carrier", json!({"code": {"gte": 2}}), 1, 3),
        ("carrier-service", json!({"carrier": {"eq": carriers[0]}}), 1, 1),
        ("carrier-service", json!({"carrier": {"eq": carriers[1]}}), 0, 1),
        ("carrier-service", json!({"carrier.name": {"like": "-"}}), 2, 4),
        ("carrier-service", json!({"carrier.organisations": {"eq": theirs}}), 0, 2),
        ("carrier-service", json!({"carrier.organisations.name": {"eq": "Toys"}}), 0, 2),
    ] {
        let body = json!({"criteria": criteria, "limit": 0});
        assert_eq!(names(&api, &api.user, resource, body.clone()).await.1, own_total, "{criteria}");
        assert_eq!(names(&api, &api.viewer, resource, body).await.1, all_total, "{criteria}");
    }
    let nested = json!({"nested": true, "criteria": {"name": {"eq": "c-both"}}});
    let list = async |token: &str, resource: &str, body: Value| {
        api.post(token, &format!("/api/{resource}/list"), body).await.expect(200).json()["results"].clone()
    };
    let seen = list(&api.user, "carrier", nested.clone()).await;
    let organisations = seen[0]["organisations"].as_array().unwrap();
    assert_eq!(organisations.len(), 1);
    assert_eq!(organisations[0]["name"], "Gifts");
    assert_eq!(seen[0]["services"][0]["name"], "s9");
    let all = list(&api.viewer, "carrier", nested).await;
    assert_eq!(all[0]["organisations"].as_array().unwrap().len(), 2);
    let seen = list(&api.user, "carrier-service", json!({"nested": true, "limit": 1})).await;
    assert_eq!(seen[0]["carrier"]["name"], "a-own");
    assert_eq!(seen[0]["carrier"]["organisations"], json!([own]));
    let both = list(
        &api.user,
        "carrier-service",
        json!({"nested": true, "sort": [{"field": "name", "order": "DESC"}]}),
    )
    .await;
    assert_eq!(both[0]["carrier"]["organisations"], json!([own]));
}
