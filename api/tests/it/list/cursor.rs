//! Pages that begin behind a cursor, and how matches are counted.

use std::collections::HashSet;

use longshore_domain::list::Request;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_kernel::access::Scope;
use longshore_testkit::world::Tenant;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use super::fixture::{Good, MIGRATIONS, list, store_many};
use super::property::{World, good, question};
use crate::support::{Api, strangers};

const CASES: u32 = 60;

/// Pages of a case at which others come.
const ARRIVALS: usize = 30;

/// Any order: of nullable fields, of texts, of related records, with and without the id.
fn order() -> impl Strategy<Value = Value> {
    const KEYS: [&str; 9] = [
        "weight",
        "createdAt",
        "active",
        "productGroup",
        "name",
        "description",
        "type",
        "organisation.name",
        "id",
    ];
    prop::sample::subsequence(KEYS.to_vec(), 0..=3).prop_shuffle().prop_flat_map(|keys| {
        let ways = prop::collection::vec(prop::sample::select(vec!["ASC", "DESC"]), keys.len());
        ways.prop_map(move |ways| {
            keys.iter().zip(ways).map(|(field, order)| json!({"field": field, "order": order})).collect()
        })
    })
}

fn ids(answer: &Value) -> Vec<Uuid> {
    answer["results"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap().parse().unwrap()).collect()
}

async fn delete(db: &PgPool, ids: &[Uuid]) {
    for sql in
        ["DELETE FROM product_eshop WHERE product_id = ANY($1)", "DELETE FROM product WHERE id = ANY($1)"]
    {
        sqlx::query(sql).bind(ids).execute(db).await.unwrap();
    }
}

#[tokio::test]
async fn pages_return_what_stayed_once_and_in_order_while_others_come_and_go() {
    let options = strangers().await;
    let api = Api::new(&options).await;
    let owner = PgPool::connect_with(options).await.unwrap();
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let world = World::store(&api, &mut runner).await;
    let eshops: Vec<_> = world.eshops.iter().map(|(id, _)| *id).collect();
    let organisation = api.tenant.organisation.get();
    let (mut number, mut moved, mut pages) = (1_000, 0, 0);
    for _ in 0..CASES {
        let mut body = question(&world).new_tree(&mut runner).unwrap().current().body();
        body["sort"] = order().new_tree(&mut runner).unwrap().current();
        for member in ["limit", "offset"] {
            body.as_object_mut().unwrap().remove(member);
        }
        let stay = ids(&list(&api, &api.user, "product", body.clone()).await);
        body["limit"] = (1..20_i64).new_tree(&mut runner).unwrap().current().into();
        body["count"] = json!("none");
        let (mut seen, mut guests) = (Vec::new(), Vec::new());
        for number_of_page in 0.. {
            let page = list(&api, &api.user, "product", body.clone()).await;
            assert_eq!(page["paging"]["from"], seen.len(), "{body}");
            let returned = ids(&page);
            seen.extend(returned.iter().copied());
            pages += 1;
            let Some(next) = page["paging"]["next"].as_str() else { break };
            assert_eq!(body["limit"], returned.len());
            body["after"] = next.into();
            // those of this page go, its last one first of all, and others come
            let (gone, left): (Vec<_>, Vec<_>) = guests.into_iter().partition(|id| returned.contains(id));
            delete(&owner, &gone).await;
            moved += gone.len();
            guests = left;
            // where a page has fewer than come, it would go on for ever
            let coming = if number_of_page < ARRIVALS { 3 } else { 0 };
            for _ in 0..coming {
                let guest =
                    good(organisation, eshops.clone(), number).new_tree(&mut runner).unwrap().current();
                guest.store(&api.services.db.main).await;
                guests.push(guest.id);
                number += 1;
            }
        }
        delete(&owner, &guests).await;
        assert_eq!(seen.iter().collect::<HashSet<_>>().len(), seen.len(), "{body}");
        let stayed: Vec<_> = seen.into_iter().filter(|id| stay.contains(id)).collect();
        assert_eq!(stayed, stay, "{body}");
    }
    // else little came and went
    assert!(pages > 2 * CASES && moved > 20, "{pages} pages, {moved} deleted");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_cursor_belongs_to_its_list(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let other = Tenant::create(&api.services, "Other").await.unwrap();
    for (organisation, sku) in
        [(api.tenant.organisation, "a"), (api.tenant.organisation, "b"), (other.organisation, "c")]
    {
        Good::new(organisation.get(), sku).store(&api.services.db.main).await;
    }
    let sort = json!([{"field": "productSku"}]);
    let first = json!({"limit": 1, "sort": sort, "criteria": {"name": {"like": "product", "neq": "x"}}});
    let with = |changes: Value| {
        let mut body = first.clone();
        body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        body
    };
    let page = list(&api, &api.superadmin, "product", first.clone()).await;
    let next = page["paging"]["next"].as_str().unwrap().to_owned();
    // the same in other words
    let same = json!({"name": {"neq": "x", "like": "%product%"}, "type": {}});
    for body in [
        with(json!({"after": next})),
        with(json!({"after": next, "offset": 0, "limit": 5, "nested": true, "criteria": same})),
        with(json!({"after": next, "sort": [{"field": "productSku", "order": "asc"}]})),
    ] {
        let page = list(&api, &api.user, "product", body).await;
        assert_eq!(page["results"][0]["productSku"], "b");
        // nobody sees more for it
        assert_eq!(page["results"].as_array().unwrap().len(), 1);
        assert_eq!(page["paging"], json!({"returned": 1, "from": 1, "to": 2, "total": 2, "next": null}));
    }
    let mut flipped = next.clone().into_bytes();
    let middle = flipped.len() / 2;
    flipped[middle] = if flipped[middle] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).unwrap();
    for (body, code) in [
        (with(json!({"after": next, "offset": 1})), "not_allowed"),
        (with(json!({"after": next, "sort": [{"field": "productSku", "order": "DESC"}]})), "invalid_cursor"),
        (with(json!({"after": next, "sort": []})), "invalid_cursor"),
        (with(json!({"after": next, "criteria": {"name": {"like": "product"}}})), "invalid_cursor"),
        (with(json!({"after": flipped})), "invalid_cursor"),
        (with(json!({"after": next[..next.len() - 4]})), "invalid_cursor"),
        (with(json!({"after": format!("2{}", &next[1..])})), "invalid_cursor"),
        (with(json!({"after": "x".repeat(1_000_001)})), "invalid_length"),
        (with(json!({"after": ""})), "invalid_length"),
        (with(json!({"after": null})), "wrong_type"),
    ] {
        let refused = api.post(&api.user, "/api/product/list", body).await.expect(400);
        assert_eq!(refused.violations(), [format!("after {code}")]);
    }
    let eshops = list(&api, &api.superadmin, "eshop", json!({"limit": 1})).await;
    let body = json!({"limit": 1, "after": eshops["paging"]["next"].as_str().unwrap()});
    let refused = api.post(&api.superadmin, "/api/warehouse/list", body).await.expect(400);
    assert_eq!(refused.violations(), ["after invalid_cursor"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn matches_are_counted_exactly_up_to_a_bound_or_not_at_all(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let paging = async |count: &str, limit: i64, offset: i64| {
        let body = json!({"count": count, "limit": limit, "offset": offset, "select": ["id"]});
        let paging = list(&api, &api.user, "product", body).await["paging"].clone();
        (paging["total"].clone(), paging["totalAtLeast"].clone())
    };
    store_many(&api, 10_000).await;
    assert_eq!(paging("bounded", 1, 0).await, (json!(10_000), Value::Null));
    store_many(&api, 10).await;
    assert_eq!(paging("bounded", 1, 0).await, (json!(10_000), json!(true)));
    assert_eq!(paging("bounded", 3, 10_002).await, (json!(10_005), json!(true)));
    assert_eq!(paging("bounded", 300, 9_900).await, (json!(10_010), Value::Null));
    assert_eq!(paging("exact", 1, 0).await, (json!(10_010), Value::Null));
    for (limit, offset) in [(1, 0), (0, 0), (300, 9_900), (300, 0)] {
        assert_eq!(paging("none", limit, offset).await, (Value::Null, Value::Null));
    }
    let refused = api.post(&api.user, "/api/product/list", json!({"count": "all"})).await.expect(400);
    assert_eq!(refused.violations(), ["count not_allowed"]);
}

/// Pages of the database that a page of a list looks at.
async fn pages_looked_at(owner: &PgPool, scope: &Scope, body: Value, values: &[String]) -> i64 {
    let mut sql = Request::read(&PRODUCT, Some(body)).unwrap().sql(scope).unwrap();
    for (number, value) in values.iter().enumerate().rev() {
        sql = sql.replace(&format!("${}", number + 1), value);
    }
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}");
    let mut looked_at = 0;
    // the first time, what it finds is not in memory, nor are the hints of its rows set
    for _ in 0..2 {
        let plan: Value = sqlx::query_scalar(AssertSqlSafe(explain.clone())).fetch_one(owner).await.unwrap();
        let of = |name: &str| plan[0]["Plan"][name].as_i64().unwrap();
        looked_at = of("Shared Hit Blocks") + of("Shared Read Blocks");
    }
    looked_at
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_page_at_any_depth_costs_what_the_first_costs(_: PgPoolOptions, options: PgConnectOptions) {
    const LIMIT: i64 = 100;
    let api = Api::new(&options).await;
    let owner = PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    // as far as the statistics know, there are few
    store_many(&api, 50).await;
    sqlx::raw_sql("VACUUM ANALYZE product").execute(&owner).await.unwrap();
    store_many(&api, 120_000).await;
    let spread = "UPDATE product SET created_at = now() + random() * interval '1 day', changed_at = now() + random() * interval '1 day',
                                     weight = nullif((random() * 100)::int, 50);
                  CREATE INDEX product_by_weight ON product (organisation_id, weight, id)";
    sqlx::raw_sql(spread).execute(&owner).await.unwrap();
    sqlx::raw_sql("VACUUM product").execute(&owner).await.unwrap();
    let scope = Scope::Organisations([api.tenant.organisation].into());
    let organisation = format!("'{}'::uuid", api.tenant.organisation);
    let page = [LIMIT.to_string(), "0".to_owned()];
    for (field, order) in
        [("createdAt", "ASC"), ("createdAt", "DESC"), ("changedAt", "ASC"), ("id", "DESC"), ("weight", "ASC")]
    {
        let body =
            json!({"sort": [{"field": field, "order": order}], "limit": LIMIT, "select": ["id", "name"]});
        let values = [std::slice::from_ref(&organisation), page.as_slice()].concat();
        let first = pages_looked_at(&owner, &scope, body.clone(), &values).await;
        let mut deep = body.clone();
        deep["offset"] = json!(100_000 - LIMIT);
        deep["select"] = json!(["id", field]);
        let before = list(&api, &api.user, "product", deep).await;
        let last = before["results"].as_array().unwrap().last().unwrap();
        let (value, id) = (&last[field], format!("'{}'::uuid", last["id"].as_str().unwrap()));
        let mut behind = body;
        behind["after"] = before["paging"]["next"].clone();
        let value = match value.as_str() {
            _ if field == "id" => None,
            Some(at) => Some(format!("'{at}'::timestamptz")),
            None => Some(value.to_string()),
        };
        // where rows without a value come separately, the page is within the first rows of each
        let several = (field == "weight").then(|| LIMIT.to_string());
        let values: Vec<_> = [Some(organisation.clone()), value, Some(id), several]
            .into_iter()
            .flatten()
            .chain(page.iter().cloned())
            .collect();
        let deep = pages_looked_at(&owner, &scope, behind, &values).await;
        assert!(
            deep * 10 <= first * 12 + 20,
            "{field} {order}: {first} for the first page, {deep} for one behind 100,000"
        );
    }
}
