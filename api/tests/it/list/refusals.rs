//! Nothing is ignored: unknown members and wrong types are refused with their path.

use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::fixture::{Good, MIGRATIONS, list};
use crate::support::Api;
use crate::support::strangers;

#[tokio::test]
async fn a_value_outside_a_closed_list_is_refused_with_the_allowed_ones() {
    let api = Api::new(&strangers().await).await;
    for (path, criteria, violation, named) in [
        ("job", json!({"state": {"eq": "broken"}}), "state.eq", "receiving, queued, running"),
        ("job", json!({"state": {"neq": "broken"}}), "state.neq", "receiving, queued, running"),
        ("job", json!({"kind": {"in": ["product.sync", "product.snyc"]}}), "kind.in[1]", "product.sync, "),
        ("job", json!({"state": {"nin": ["Failed"]}}), "state.nin[0]", "failed, cancelled"),
        ("eshop-webhook", json!({"health": {"eq": "bad"}}), "health.eq", "healthy, failing, disabled"),
        (
            "webhook-delivery",
            json!({"state": {"eq": ""}}),
            "state.eq",
            "pending, delivered, exhausted, cancelled",
        ),
        ("webhook-delivery", json!({"webhook.health": {"eq": "bad"}}), "webhook.health.eq", "healthy"),
    ] {
        let path = format!("/api/{path}/list");
        let refused = api.post(&api.user, &path, json!({"criteria": criteria, "limit": 1})).await.expect(400);
        assert_eq!(refused.violations(), [format!("criteria.{violation} not_allowed")]);
        let message = refused.json()["violations"][0]["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("must be one of ") && message.contains(named), "{message}");
    }
    // a part of a word may be searched for, and an empty list needs no check
    for criteria in
        [json!({"state": {"like": "brok"}}), json!({"state": {"in": []}}), json!({"state": {"nin": []}})]
    {
        let body = json!({"criteria": criteria, "limit": 1});
        api.post(&api.user, "/api/job/list", body).await.expect(200);
    }
}

#[tokio::test]
async fn an_empty_array_is_an_empty_object_as_php_writes_it() {
    let api = Api::new(&strangers().await).await;
    for (path, body) in [
        ("product", json!([])),
        ("product", json!({"criteria": []})),
        ("product", json!({"criteria": {"name": []}, "sort": [], "select": []})),
        ("product", json!({"criteria": {"eshops.name": [], "createdAt": {"null": false}}})),
        ("expedition", json!({"criteria": [], "extra": []})),
    ] {
        let empty = api.post(&api.user, &format!("/api/{path}/list"), json!({})).await.expect(200);
        let listed = api.post(&api.user, &format!("/api/{path}/list"), body.clone()).await.expect(200);
        assert_eq!(listed.json()["paging"], empty.json()["paging"], "{body}");
    }
    api.post(&api.user, "/api/audit", json!({"criteria": []})).await.expect(200);
}

#[tokio::test]
async fn unknown_members_and_wrong_types_are_refused_with_their_path() {
    let api = Api::new(&strangers().await).await;
    let cases = [
        (json!([1]), " wrong_type"),
        (json!({"filter": {}}), "filter unknown_field"),
        (json!({"criteria": [1]}), "criteria wrong_type"),
        (json!({"criteria": {"name": [1]}}), "criteria.name wrong_type"),
        (json!({"criteria": {"colour": []}}), "criteria.colour unknown_field"),
        (json!({"criteria": {"colour": {"eq": "red"}}}), "criteria.colour unknown_field"),
        (json!({"criteria": {"name": "x"}}), "criteria.name wrong_type"),
        (json!({"criteria": {"colour": {}}}), "criteria.colour unknown_field"),
        (json!({"criteria": {"name": {"equals": "x"}}}), "criteria.name.equals unknown_operator"),
        (json!({"criteria": {"name": {"gt": "x"}}}), "criteria.name.gt unknown_operator"),
        (json!({"criteria": {"name": {"eq": null}}}), "criteria.name.eq wrong_type"),
        (json!({"criteria": {"name": {"eq": 1}}}), "criteria.name.eq wrong_type"),
        (json!({"criteria": {"name": {"eq": "a\u{0}"}}}), "criteria.name.eq invalid_character"),
        (json!({"criteria": {"name": {"like": "x".repeat(256)}}}), "criteria.name.like invalid_length"),
        (json!({"criteria": {"name": {"eq": "x".repeat(10_001)}}}), "criteria.name.eq invalid_length"),
        (json!({"criteria": {"name": {"like": true}}}), "criteria.name.like wrong_type"),
        (json!({"criteria": {"name": {"in": ["a", 1]}}}), "criteria.name.in[1] wrong_type"),
        (json!({"criteria": {"name": {"null": "yes"}}}), "criteria.name.null wrong_type"),
        (json!({"criteria": {"weight": {"eq": "1"}}}), "criteria.weight.eq wrong_type"),
        (json!({"criteria": {"weight": {"eq": 1.5}}}), "criteria.weight.eq wrong_type"),
        (json!({"criteria": {"weight": {"eq": u64::MAX}}}), "criteria.weight.eq out_of_range"),
        (json!({"criteria": {"weight": {"like": "1"}}}), "criteria.weight.like unknown_operator"),
        (
            json!({"criteria": {"createdAt": {"gte": "2026-01-01"}}}),
            "criteria.createdAt.gte invalid_timestamp",
        ),
        (json!({"criteria": {"active": {"flag": 1}}}), "criteria.active.flag wrong_type"),
        (json!({"criteria": {"active": {"in": [true]}}}), "criteria.active.in unknown_operator"),
        (json!({"criteria": {"id": {"eq": "7"}}}), "criteria.id.eq invalid_id"),
        (json!({"criteria": {"id": {"like": "7"}}}), "criteria.id.like unknown_operator"),
        (json!({"criteria": {"eshops": {"neq": api.tenant.eshop}}}), "criteria.eshops.neq unknown_operator"),
        (json!({"criteria": {"eshops.name": {"eq": 5}}}), "criteria.eshops.name.eq wrong_type"),
        (json!({"criteria": {"eshops.colour": {"eq": 5}}}), "criteria.eshops.colour unknown_field"),
        (json!({"criteria": {"name.length": {"eq": 5}}}), "criteria.name.length unknown_field"),
        (json!({"criteria": {"eshops.": {"eq": 5}}}), "criteria.eshops. unknown_field"),
        (json!({"criteria": {"": {"eq": 5}}}), "criteria. unknown_field"),
        (
            json!({"criteria": {"eshops.warehouses.organisation.name": {"eq": "x"}}}),
            "criteria.eshops.warehouses.organisation.name too_deep",
        ),
        (json!({"criteria": {"childrenProducts": {"null": true}}}), "criteria.childrenProducts no_operators"),
        (json!({"sort": {"field": "name"}}), "sort wrong_type"),
        (json!({"sort": ["name"]}), "sort[0] wrong_type"),
        (json!({"sort": [{"order": "ASC"}]}), "sort[0].field required"),
        (json!({"sort": [{"field": "colour"}]}), "sort[0].field unknown_field"),
        (json!({"sort": [{"field": "name", "order": "down"}]}), "sort[0].order not_allowed"),
        (json!({"sort": [{"field": "name", "way": "ASC"}]}), "sort[0].way unknown_field"),
        (json!({"sort": [{"field": "eshops.name"}]}), "sort[0].field not_sortable"),
        (json!({"sort": [{"field": "eshops"}]}), "sort[0].field not_sortable"),
        (json!({"select": "name"}), "select wrong_type"),
        (json!({"select": ["name", "colour"]}), "select[1] unknown_field"),
        (json!({"select": ["organisation.name"]}), "select[0] unknown_field"),
        (json!({"nested": "true"}), "nested wrong_type"),
        (json!({"limit": "10"}), "limit wrong_type"),
        (json!({"limit": 1.5}), "limit wrong_type"),
        (json!({"offset": null}), "offset wrong_type"),
    ];
    for (body, expected) in cases {
        let refused = api.post(&api.user, "/api/product/list", body.clone()).await;
        assert_eq!(refused.expect(400).violations(), [expected], "{body}");
    }
    let several = json!({"limit": -1, "select": ["x"], "criteria": {"name": {"eq": 1}, "weight": {"in": 3}}});
    let refused = api.post(&api.user, "/api/product/list", several).await.expect(400);
    assert_eq!(refused.violations().len(), 4);
}

#[tokio::test]
async fn a_refusal_suggests_a_similar_name() {
    let api = Api::new(&strangers().await).await;
    for (body, detail) in [
        (
            json!({"criteria": {"sku": {"eq": 1}}}),
            "criteria.sku is not a known field; did you mean productSku?",
        ),
        (
            json!({"criteria": {"eshops.nmae": {"eq": 1}}}),
            "criteria.eshops.nmae is not a known field; did you mean name?",
        ),
        (json!({"select": ["Name"]}), "select[0] is not a known field; did you mean name?"),
        (json!({"criterias": {}}), "criterias is not a known field; did you mean criteria?"),
        (json!({"filter": {}}), "filter is not a known field"),
        (
            json!({"criteria": {"name": "x"}}),
            "criteria.name must be an object of operators, such as {\"eq\": …}, not a string",
        ),
    ] {
        let refused = api.post(&api.user, "/api/product/list", body).await.expect(400).json();
        assert_eq!((&refused["detail"], &refused["message"]), (&json!(detail), &json!(detail)));
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn hostile_names_and_values_reach_no_statement(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    Good::new(api.tenant.organisation.get(), "a").store(&api.services.db.main).await;
    let hostile = [
        "name' OR '1'='1",
        "name\"; DROP TABLE product; --",
        "t0.organisation_id",
        "organisation_id",
        "$1",
        "{t}.name",
        "{e}",
        "name; SELECT pg_sleep(10)",
        "name/**/",
        "eshops.name') OR (1=1",
    ];
    for text in hostile {
        for body in [
            json!({"criteria": {text: {"eq": "x"}}}),
            json!({"criteria": {"name": {text: "x"}}}),
            json!({"sort": [{"field": text}]}),
            json!({"sort": [{"field": "name", "order": text}]}),
            json!({"select": [text]}),
            json!({text: 1}),
        ] {
            api.post(&api.user, "/api/product/list", body).await.expect(400);
        }
        for operator in ["eq", "like"] {
            let answer =
                list(&api, &api.user, "product", json!({"criteria": {"name": {operator: text}}})).await;
            assert_eq!(answer["paging"]["total"], 0, "{text}");
        }
        for operator in ["neq", "notLike"] {
            let answer =
                list(&api, &api.user, "product", json!({"criteria": {"name": {operator: text}}})).await;
            assert_eq!(answer["paging"]["total"], 1, "{text}");
        }
    }
}

#[tokio::test]
async fn a_body_is_bounded_in_depth_and_in_fields() {
    let api = Api::new(&strangers().await).await;
    let deep = format!("{{\"criteria\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let request = http::Request::post("/api/product/list")
        .header("authorization", format!("Bearer {}", api.user))
        .header("content-type", "application/json")
        .body(deep.into())
        .unwrap();
    assert_eq!(api.send(request).await.expect(400).json()["code"], "malformed_body");
    let many: Value =
        (0..65).map(|n| (format!("f{n}"), json!({"eq": 1}))).collect::<serde_json::Map<_, _>>().into();
    let refused = api.post(&api.user, "/api/product/list", json!({ "criteria": many })).await.expect(400);
    assert_eq!(refused.violations(), ["criteria invalid_count"]);
    let keys: Vec<_> = (0..17).map(|_| json!({"field": "name"})).collect();
    let refused = api.post(&api.user, "/api/product/list", json!({ "sort": keys })).await.expect(400);
    assert_eq!(refused.violations(), ["sort invalid_count"]);
}

#[tokio::test]
async fn a_query_parameter_is_refused_and_not_answered_with_everything() {
    let api = Api::new(&strangers().await).await;
    for (path, body) in
        [("/api/product/list?limit=5", Value::Null), ("/api/audit?limit=5", json!({"select": ["id"]}))]
    {
        let refused = api.post(&api.user, path, body).await.expect(400);
        assert_eq!(refused.violations(), ["limit unknown_field"], "{path}");
    }
    api.post(&api.user, "/api/product/list?", Value::Null).await.expect(200);
}
