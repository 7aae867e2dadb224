//! Dotted paths: into objects, and through relations.

use longshore_domain::list::criteria::{Operator, operators};
use longshore_domain::list::fields::delivery::DELIVERY;
use longshore_domain::list::fields::eshop::ESHOP;
use longshore_domain::list::fields::job::JOB;
use longshore_domain::list::fields::organisation::ORGANISATION;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_domain::list::fields::stock::PRODUCT_STOCK;
use longshore_domain::list::fields::subscription::WEBHOOK;
use longshore_domain::list::fields::warehouse::WAREHOUSE;
use longshore_domain::list::fields::wms::WMS;
use longshore_domain::list::resource::{Field, Kind, Resource};
use longshore_testkit::world::Tenant;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::fixture::{Good, eshop, list, skus};
use crate::support::Api;
use crate::support::strangers;

#[tokio::test]
async fn a_path_through_relations_applies_to_the_related_record() {
    let api = Api::new(&strangers().await).await;
    let organisation = api.tenant.organisation;
    let second = eshop(&api, organisation.get(), "Second").await;
    let db = &api.services.db.main;
    let a = Good { eshops: vec![api.tenant.eshop.get(), second], ..Good::new(organisation.get(), "a") };
    let b = Good { eshops: vec![api.tenant.eshop.get()], ..Good::new(organisation.get(), "b") };
    let c =
        Good { kind: "bundle", children: vec![(a.id, 2), (b.id, 5)], ..Good::new(organisation.get(), "c") };
    for good in [&a, &b, &c] {
        good.store(db).await;
    }
    let cases = [
        (json!({"organisation.name": {"eq": "Gifts"}}), "abc"),
        (json!({"organisation.name": {"neq": "Gifts"}}), ""),
        (json!({"organisation.id": {"eq": organisation}}), "abc"),
        (json!({"organisation.active": {"flag": false}}), ""),
        (json!({"organisation.wmses": {"eq": api.tenant.wms}}), "abc"),
        (json!({"organisation.wmses.name": {"like": "INVENTORY"}}), "abc"),
        (json!({"eshops.name": {"eq": "Second"}}), "a"),
        // any related record may match: others do not matter
        (json!({"eshops.name": {"neq": "Second"}}), "ab"),
        // all operators of a path apply to the same record, but each path to its own
        (json!({"eshops.name": {"like": "s", "notLike": "gifts"}}), "a"),
        (json!({"eshops.name": {"eq": "Second"}, "eshops.id": {"eq": api.tenant.eshop}}), "a"),
        (json!({"eshops.organisation.name": {"eq": "Gifts"}}), "ab"),
        (json!({"eshops.warehouses": {"eq": api.tenant.warehouse}}), "ab"),
        (json!({"eshops.warehouses.customId": {"eq": "W1"}}), "ab"),
        (json!({"eshops.defaultWarehouse.name": {"null": true}}), "a"),
        (json!({"childrenProducts.productId": {"eq": a.id}}), "c"),
        (json!({"childrenProducts.quantity": {"gt": 4}}), "c"),
        (json!({"childrenProducts.quantity": {"gt": 2, "lt": 5}}), ""),
        (json!({"childrenProducts.productId.eshops": {"eq": second}}), "c"),
        (json!({"childrenProducts.productId.eshops.name": {"eq": "Second"}}), "c"),
    ];
    for (criteria, expected) in cases {
        assert_eq!(skus(&api, criteria.clone()).await.concat(), expected, "{criteria}");
    }
}

/// Every path of a resource, with its field.
fn paths(
    prefix: &str,
    fields: &'static [Field],
    relations: usize,
    found: &mut Vec<(String, &'static Field)>,
) {
    for field in fields.iter().filter(|field| field.is_asked()) {
        let path = format!("{prefix}{}", field.name);
        let inner = format!("{path}.");
        match field.kind {
            Kind::Object(fields) | Kind::Rows(_, fields) => paths(&inner, fields, relations, found),
            Kind::One(related) | Kind::Many(_, related) if relations > 0 => {
                found.push((path, field));
                paths(&inner, related.fields, relations - 1, found);
            }
            _ => found.push((path, field)),
        }
    }
}

fn value(field: &Field, operator: Operator) -> Value {
    let one = match field.kind {
        Kind::Text if field.among.is_some() && !matches!(operator, Operator::Like | Operator::NotLike) => {
            json!(field.among.and_then(<[_]>::first))
        }
        Kind::Text | Kind::Texts => json!("x"),
        Kind::Integer => json!(1),
        Kind::Timestamp => json!("2026-01-01T00:00:00Z"),
        Kind::Boolean => json!(true),
        _ => json!(Uuid::nil()),
    };
    match operator {
        Operator::In | Operator::Nin => json!([one]),
        Operator::Null | Operator::Flag => json!(true),
        _ => one,
    }
}

#[tokio::test]
async fn every_path_of_every_resource_works_in_criteria_and_sorting() {
    let api = Api::new(&strangers().await).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let bound = other.eshop_token(&api.services).await.unwrap();
    let resources: [(&str, &Resource); 9] = [
        ("organisation", &ORGANISATION),
        ("eshop", &ESHOP),
        ("warehouse", &WAREHOUSE),
        ("wms", &WMS),
        ("product", &PRODUCT),
        ("product-stock", &PRODUCT_STOCK),
        ("job", &JOB),
        ("eshop-webhook", &WEBHOOK),
        ("webhook-delivery", &DELIVERY),
    ];
    for (name, resource) in resources {
        let mut found = Vec::new();
        paths("", resource.fields, 2, &mut found);
        let token = if name.contains("webhook") { &api.user } else { &bound };
        for part in found.chunks(16) {
            let mut criteria = Map::new();
            for (path, field) in part {
                let all = operators(&field.kind);
                let asked: Map<_, _> =
                    all.iter().map(|o| (o.as_str().to_owned(), value(field, *o))).collect();
                criteria.insert(path.clone(), asked.into());
            }
            let answer = list(&api, token, name, json!({"criteria": criteria, "limit": 0})).await;
            assert_eq!(answer["paging"]["total"], 0, "{name}");
        }
        let keys: Vec<_> = found.iter().map(|(path, _)| json!({"field": path})).collect();
        let mut sorted = 0;
        for key in keys {
            let body = json!({"sort": [key], "limit": 1});
            let reply = api.post(token, &format!("/api/{name}/list"), body).await;
            if reply.status == 400 {
                assert_eq!(reply.violations(), ["sort[0].field not_sortable"]);
            } else {
                reply.expect(200);
                sorted += 1;
            }
        }
        assert!(sorted >= 5, "{name}");
    }
}
