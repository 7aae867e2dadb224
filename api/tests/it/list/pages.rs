//! Pages, orders and selections.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use longshore_domain::list::Request;
use longshore_domain::list::fields::delivery::DELIVERY;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_kernel::access::Scope;
use longshore_kernel::ids;
use longshore_kernel::statistics;
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};

use super::fixture::{Good, MIGRATIONS, at, list, store_many, store_many_of};
use crate::support::Api;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn pages_follow_each_other_without_gap_or_overlap(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    // all from one statement: one `createdAt`, one `type`; only the ids differ
    store_many(&api, 250).await;
    for sort in
        [json!([]), json!([{"field": "type", "order": "DESC"}]), json!([{"field": "organisation.name"}])]
    {
        let mut seen = HashSet::new();
        for offset in [0, 100, 200, 300] {
            let mut page =
                list(&api, &api.user, "product", json!({"limit": 100, "offset": offset, "sort": sort})).await;
            let next = page["paging"].as_object_mut().unwrap().remove("next").unwrap();
            assert_eq!(next.is_null(), offset >= 200);
            let returned = [100, 100, 50, 0][offset / 100];
            let expected =
                json!({"returned": returned, "from": offset, "to": offset + returned, "total": 250});
            assert_eq!(page["paging"], expected);
            for record in page["results"].as_array().unwrap() {
                assert!(seen.insert(record["id"].as_str().unwrap().to_owned()), "{record} is on two pages");
            }
        }
        assert_eq!(seen.len(), 250);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_limit_is_0_to_10000_and_an_offset_0_to_2147483647(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    store_many(&api, 10_001).await;
    let select = json!(["id"]);
    let ask = async |limit: i64, offset: i64| {
        let body = json!({"limit": limit, "offset": offset, "select": select});
        api.post(&api.user, "/api/product/list", body).await
    };
    let paging = async |limit, offset| {
        let mut answer = ask(limit, offset).await.expect(200).json();
        // whether there is another page, not its cursor
        let next = answer["paging"]["next"].is_string();
        answer["paging"]["next"] = json!(next);
        answer["paging"].clone()
    };
    let none = json!({"returned": 0, "from": 0, "to": 0, "total": 10_001, "next": false});
    assert_eq!(paging(0, 0).await, none);
    let one = json!({"returned": 1, "from": 0, "to": 1, "total": 10_001, "next": true});
    assert_eq!(paging(1, 0).await, one);
    let all = json!({"returned": 10_000, "from": 0, "to": 10_000, "total": 10_001, "next": true});
    assert_eq!(paging(10_000, 0).await, all);
    let last = json!({"returned": 1, "from": 10_000, "to": 10_001, "total": 10_001, "next": false});
    assert_eq!(paging(10_000, 10_000).await, last);
    let past =
        json!({"returned": 0, "from": 2_147_483_647, "to": 2_147_483_647, "total": 10_001, "next": false});
    assert_eq!(paging(10, 2_147_483_647).await, past);
    for (limit, offset, path) in
        [(10_001, 0, "limit"), (-1, 0, "limit"), (1, -1, "offset"), (1, 1 << 31, "offset")]
    {
        assert_eq!(ask(limit, offset).await.expect(400).violations(), [format!("{path} out_of_range")]);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_has_several_keys_and_null_comes_last(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    for (sku, weight, day) in [("a", Some(2), 3), ("b", None, 2), ("c", Some(1), 2), ("d", Some(2), 1)] {
        let created_at = at(&format!("2026-01-0{day}T00:00:00Z"));
        let good = Good { weight, created_at, ..Good::new(api.tenant.organisation.get(), sku) };
        good.store(&api.services.db.main).await;
    }
    let order = async |sort: Value| {
        let answer = list(&api, &api.user, "product", json!({"sort": sort, "select": ["productSku"]})).await;
        let results = answer["results"].as_array().unwrap();
        results.iter().map(|r| r["productSku"].as_str().unwrap()).collect::<String>()
    };
    assert_eq!(order(json!([])).await, "dbca");
    assert_eq!(order(json!([{"field": "weight"}, {"field": "createdAt", "order": "DESC"}])).await, "cadb");
    assert_eq!(
        order(json!([{"field": "weight", "order": "DESC"}, {"field": "productSku", "order": "ASC"}])).await,
        "adcb"
    );
    assert_eq!(
        order(json!([{"field": "organisation.name"}, {"field": "productSku", "order": "DESC"}])).await,
        "dcba"
    );
    assert_eq!(order(json!([{"field": "id", "order": "DESC"}])).await, "dcba");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_index_provides_the_default_order_in_both_directions(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    store_many(&api, 5_000).await;
    let owner = PgPool::connect_with(options).await.unwrap();
    sqlx::raw_sql("ANALYZE product").execute(&owner).await.unwrap();
    let scope = Scope::Organisations([api.tenant.organisation].into());
    for (field, order) in [("createdAt", "ASC"), ("createdAt", "DESC"), ("changedAt", "DESC")] {
        let body = json!({"sort": [{"field": field, "order": order}], "limit": 10, "select": ["id"]});
        let sql = Request::read(&PRODUCT, Some(body)).unwrap().sql(&scope).unwrap();
        // its parameters are the organisation of the scope, the limit and the offset
        let organisation = format!("'{}'::uuid", api.tenant.organisation);
        let sql = sql.replace("$1", &organisation).replace("$2", "10").replace("$3", "0");
        let plan: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(format!("EXPLAIN {sql}"))).fetch_all(&owner).await.unwrap();
        let plan = plan.join("\n");
        assert!(
            plan.contains("using product_by_") && !plan.contains("Seq Scan"),
            "{field} {order}:\n{sql}\n{plan}"
        );
    }
}

/// Rows of the part of a plan that has most of them.
fn most_rows(plan: &Value) -> f64 {
    let of_parts = plan["Plans"].as_array().into_iter().flatten().map(most_rows);
    let own = plan["Actual Rows"].as_f64().unwrap() * plan["Actual Loops"].as_f64().unwrap();
    of_parts.fold(own, f64::max)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_page_of_deliveries_reads_no_more_than_a_page_of_each_table(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    const EACH: &str = "10000";
    let api = Api::new(&options).await;
    let noisy = Tenant::create(&api.services, "Noisy").await.unwrap();
    let owner = PgPool::connect_with(options).await.unwrap();
    services::analyse_by_hand(&owner).await.unwrap();
    let hook = ids::new_id();
    let fill = format!(
        "INSERT INTO webhook (id, organisation_id, eshop_id, event, events, destination, active, authentication_type, secret)
         VALUES ('{hook}', '{own}', '{eshop}', '*', '{{product_change}}', 'https://shop.example', true, 'none', ''),
                (uuid_v7(), '{other}', '{others}', '*', '{{product_change}}', 'https://noisy.example', true, 'none', '');
         ANALYZE webhook, delivery, delivery_history;
         CREATE TEMP TABLE made AS
             SELECT w.*, n FROM webhook w, generate_series(1, {EACH}) AS n WHERE w.id <> '{hook}' OR n <= 30;
         INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
             SELECT uuid_v7(), id, eshop_id, uuid_v7(), now() FROM made;
         INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
                                       attempt_count, attempts, created_at, finished_at)
             SELECT uuid_v7(), id, eshop_id, organisation_id, uuid_v7(), 'product_change', uuid_v7(), 'delivered', 1, '[]', now(),
                    now()
             FROM made",
        own = api.tenant.organisation,
        eshop = api.tenant.eshop,
        other = noisy.organisation,
        others = noisy.eshop,
    );
    sqlx::raw_sql(AssertSqlSafe(fill)).execute(&owner).await.unwrap();
    let plan = async |scope: &Scope, body: Value, values: &[String]| {
        let mut sql = Request::read(&DELIVERY, Some(body)).unwrap().sql(scope).unwrap();
        for (number, value) in values.iter().enumerate().rev() {
            sql = sql.replace(&format!("${}", number + 1), value);
        }
        let explain = format!("EXPLAIN (ANALYZE, FORMAT JSON) {sql}");
        let plan: Value = sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(&owner).await.unwrap();
        most_rows(&plan[0]["Plan"])
    };
    let own = Scope::Organisations([api.tenant.organisation].into());
    let organisation = format!("'{}'::uuid", api.tenant.organisation);
    let page = ["10", "10", "0"].map(str::to_owned);
    for order in ["ASC", "DESC"] {
        let body = json!({"sort": [{"field": "id", "order": order}], "limit": 10});
        let all = plan(&Scope::Everything, body.clone(), &page).await;
        assert!(all <= 20.0, "{order}: of all, {all} rows were read for a page of 10");
        let own = plan(&own, body, &[std::slice::from_ref(&organisation), page.as_slice()].concat()).await;
        assert!(own <= 60.0, "{order}: beside a noisy neighbour, {own} rows were read for a page of 10");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn exactly_the_selected_fields_come_back(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    Good::new(api.tenant.organisation.get(), "a").store(&api.services.db.main).await;
    let keys = async |select: Value| {
        let answer = list(&api, &api.user, "product", json!({"select": select, "limit": 1})).await;
        let record = answer["results"][0].as_object().unwrap().clone();
        let mut keys: Vec<_> = record.into_iter().map(|(key, _)| key).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(json!(["productSku"])).await, ["productSku"]);
    assert_eq!(keys(json!(["name", "id", "name", "eshops"])).await, ["eshops", "id", "name"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_list_without_a_body_returns_everything(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    for resource in ["organisation", "eshop", "warehouse", "wms"] {
        let answer = list(&api, &api.user, resource, Value::Null).await;
        assert_eq!(
            answer["paging"],
            json!({"returned": 1, "from": 0, "to": 1, "total": 1, "next": null}),
            "{resource}"
        );
    }
    let empty = list(&api, &api.user, "product", json!({"offset": 5})).await;
    assert_eq!(
        empty,
        json!({"results": [], "paging": {"returned": 0, "from": 5, "to": 5, "total": 0, "next": null}})
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_first_catalogue_of_an_eshop_is_listed_whatever_the_statistics_know(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    const PRODUCTS: i32 = 20_000;
    let api = Api::new(&options).await;
    let owner = PgPool::connect_with(options).await.unwrap();
    services::analyse_by_hand(&owner).await.unwrap();
    // what is known is the large catalogue of another organisation
    let earlier = Tenant::create(&api.services, "Earlier").await.unwrap();
    store_many_of(&api, &earlier, 150_000).await;
    sqlx::raw_sql("ANALYZE product, product_eshop").execute(&owner).await.unwrap();
    store_many(&api, PRODUCTS).await;

    let criteria = json!({"eshops": {"eq": api.tenant.eshop}});
    let list = async |limit: i32| {
        let body = json!({"criteria": criteria, "select": ["id"], "limit": limit});
        let found = api.post(&api.connector, "/api/product/list", body).await.expect(200).json();
        assert_eq!(found["results"].as_array().unwrap().len(), usize::try_from(limit).unwrap());
        assert_eq!(found["paging"]["total"], PRODUCTS);
    };
    list(10).await;
    list(300).await;

    // a worker asks for it every second
    assert!(statistics::refresh(&api.services.db.main).await.unwrap() >= 1);
    let started = Instant::now();
    list(10).await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}
