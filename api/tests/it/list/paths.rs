//! Dotted paths: into objects, and through relations.

use longshore_api::openapi;
use longshore_domain::list::criteria::{Operator, PATHS, operators};
use longshore_domain::list::fields::admin::ADMIN;
use longshore_domain::list::fields::business_user::BUSINESS_USER;
use longshore_domain::list::fields::carrier::CARRIER;
use longshore_domain::list::fields::delivery::DELIVERY;
use longshore_domain::list::fields::eshop::ESHOP;
use longshore_domain::list::fields::event_reader::EVENT_READER;
use longshore_domain::list::fields::expedition::EXPEDITION;
use longshore_domain::list::fields::expedition_item::{EXPEDITION_ITEM, RESERVATION};
use longshore_domain::list::fields::job::JOB;
use longshore_domain::list::fields::lost_order::LOST_ORDER;
use longshore_domain::list::fields::movement::STOCK_MOVEMENT;
use longshore_domain::list::fields::organisation::ORGANISATION;
use longshore_domain::list::fields::packaging::PACKAGING_OPTION;
use longshore_domain::list::fields::preference::CARRIER_PREFERENCE;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_domain::list::fields::receipt::{INBOUND_RECEIPT, OUTBOUND_RECEIPT};
use longshore_domain::list::fields::service::CARRIER_SERVICE;
use longshore_domain::list::fields::session::SESSION;
use longshore_domain::list::fields::stock::PRODUCT_STOCK;
use longshore_domain::list::fields::stock_advice::STOCK_ADVICE;
use longshore_domain::list::fields::subscription::WEBHOOK;
use longshore_domain::list::fields::supplier::SUPPLIER;
use longshore_domain::list::fields::token::ACCESS_TOKEN;
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

/// How many keys an order may have.
const KEYS: usize = 16;

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
        Kind::Text | Kind::Texts
            if field.among.is_some() && !matches!(operator, Operator::Like | Operator::NotLike) =>
        {
            json!(field.among.and_then(<[_]>::first))
        }
        Kind::Text | Kind::Texts => json!("x"),
        Kind::Integer | Kind::Number => json!(1),
        Kind::Date => json!("2026-01-01"),
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

/// Every list without an id in its path.
static LISTS: [(&str, &Resource); 27] = [
    ("access-token", &ACCESS_TOKEN),
    ("admin", &ADMIN),
    ("business-user", &BUSINESS_USER),
    ("carrier", &CARRIER),
    ("carrier-preference", &CARRIER_PREFERENCE),
    ("carrier-service", &CARRIER_SERVICE),
    ("eshop", &ESHOP),
    ("eshop-webhook", &WEBHOOK),
    ("event-reader", &EVENT_READER),
    ("expedition", &EXPEDITION),
    ("expedition-item", &EXPEDITION_ITEM),
    ("inbound-receipt", &INBOUND_RECEIPT),
    ("job", &JOB),
    ("lost-order", &LOST_ORDER),
    ("organisation", &ORGANISATION),
    ("outbound-receipt", &OUTBOUND_RECEIPT),
    ("packaging-option", &PACKAGING_OPTION),
    ("product", &PRODUCT),
    ("product-stock", &PRODUCT_STOCK),
    ("reservation", &RESERVATION),
    ("session", &SESSION),
    ("stock-advice", &STOCK_ADVICE),
    ("stock-movement", &STOCK_MOVEMENT),
    ("supplier", &SUPPLIER),
    ("warehouse", &WAREHOUSE),
    ("webhook-delivery", &DELIVERY),
    ("wms", &WMS),
];

#[tokio::test]
async fn every_path_of_every_list_works_in_criteria_and_sorting() {
    let routes = openapi::routes().iter().filter_map(|route| route.path.strip_prefix("/api/"));
    let mut documented: Vec<_> = routes.filter_map(|path| path.strip_suffix("/list")).collect();
    documented.retain(|name| !name.contains('/'));
    documented.sort_unstable();
    assert_eq!(documented, LISTS.map(|(name, _)| name));

    let api = Api::new(&strangers().await).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let bound = other.eshop_token(&api.services).await.unwrap();
    for (name, resource) in LISTS {
        let mut found = Vec::new();
        paths("", resource.fields, 2, &mut found);
        let url = format!("/api/{name}/list");
        // one who sees the fewest records, as far as he sees any
        let is_seen = api.post(&bound, &url, json!({"limit": 0})).await.status == 200;
        let token = if is_seen { &bound } else { &api.superadmin };
        for part in found.chunks(*PATHS.end()) {
            let asked = |(path, field): &(String, &'static Field)| {
                let all = operators(&field.kind).iter();
                let of_all: Map<_, _> = all.map(|o| (o.as_str().to_owned(), value(field, *o))).collect();
                (path.clone(), of_all.into())
            };
            let criteria: Map<_, _> = part.iter().map(asked).collect();
            let answer = list(&api, token, name, json!({"criteria": criteria, "limit": 0})).await;
            assert_eq!(answer["paging"]["total"], 0, "{name}");
        }
        let mut sorted = 0;
        for part in found.chunks(KEYS) {
            let mut keys: Vec<_> = part.iter().map(|(path, _)| json!({"field": path})).collect();
            let reply = api.post(token, &url, json!({"sort": keys, "limit": 1})).await;
            if reply.status == 400 {
                // those that have no order are named, and the others are accepted
                for refused in reply.violations().iter().rev() {
                    let place = refused.strip_prefix("sort[").unwrap();
                    keys.remove(place.strip_suffix("].field not_sortable").unwrap().parse().unwrap());
                }
                api.post(token, &url, json!({"sort": keys, "limit": 1})).await.expect(200);
            } else {
                reply.expect(200);
            }
            sorted += keys.len();
        }
        assert!(sorted >= 4, "{name}: {sorted}");
    }
}
