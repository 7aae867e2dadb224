//! Lists that are read again every few seconds, and lists that are sorted by the heads of their columns.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tower::ServiceExt as _;
use uuid::Uuid;

use super::{Browser, MIGRATIONS, job, next_page, webhook, world};

/// The lists that can be refreshed, each with a search that it keeps.
const LISTS: [(&str, &str); 5] = [
    ("/console/job", "state=failed&"),
    ("/console/webhook", "health=healthy&"),
    ("/console/delivery", "state=pending&"),
    ("/console/sync", "name=shop&"),
    ("/console/order", "status=on_hold&"),
];

/// The attribute of an element.
fn attribute<'p>(page: &'p str, name: &str) -> Option<&'p str> {
    page.split(&format!(" {name}=\"")).nth(1)?.split('"').next()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_list_is_read_again_as_often_as_was_chosen(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let browser = Browser::new(&world.api, &world.api.viewer);
    for (list, search) in LISTS {
        let still = browser.open(&format!("{list}?{search}")).await.expect(200).text;
        assert!(!still.contains("data-live") && !still.contains("http-equiv"), "{list}: {still}");
        let choice = format!("{list}?{search}refresh=5").replace('&', "&amp;");
        assert!(still.contains(&format!("href=\"{choice}\"")), "{list}: {choice}: {still}");
        for seconds in ["5", "30"] {
            let page = browser
                .open(&format!("{list}?{search}refresh={seconds}&done=retried"))
                .await
                .expect(200)
                .text;
            let live = format!("{list}/live?{search}refresh={seconds}").replace('&', "&amp;");
            assert_eq!(attribute(&page, "data-live"), Some(live.as_str()), "{list}");
            assert_eq!(attribute(&page, "data-every"), Some(seconds), "{list}");
            // without script the browser does it
            let plain = format!("<noscript><meta http-equiv=\"refresh\" content=\"{seconds}\"></noscript>");
            assert!(page.contains(&plain), "{list}: {page}");
        }
        for other in ["1", "0", "x", "-5"] {
            let page = browser.open(&format!("{list}?refresh={other}")).await.expect(200).text;
            assert!(!page.contains("data-live"), "{list}: {other}");
        }
        // a search that cannot be read is not tried again
        let refused = browser.open(&format!("{list}?refresh=5&size=7")).await.expect(400).text;
        assert!(!refused.contains("data-live"), "{list}: {refused}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_refreshed_list_shows_what_matches_its_search(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let failed = job(&world, &api.tenant, "failed", Some("it broke")).await.to_string();
    let running = job(&world, &api.tenant, "running", None).await.to_string();
    webhook(api, "https://shop.example/hook").await;
    let other = Tenant::create(&api.services, "Strangers").await.unwrap();
    let theirs = other.token(&api.services, longshore_kernel::access::Role::Admin).await.unwrap();
    for (path, token, shown, hidden) in [
        ("/console/job/live?state=failed&refresh=5", &api.viewer, failed.as_str(), running.as_str()),
        ("/console/job/live?state=failed&refresh=5", &theirs, "No job matches.", failed.as_str()),
        ("/console/webhook/live?refresh=5", &api.viewer, "shop.example", "nothing.example"),
        ("/console/webhook/live?refresh=5", &theirs, "No webhook matches.", "shop.example"),
        ("/console/delivery/live?refresh=5", &api.viewer, "No delivery matches.", "shop.example"),
        ("/console/sync/live?refresh=5", &api.viewer, "no recent run", "nothing.example"),
        ("/console/order/live?refresh=5", &api.viewer, "No order matches.", "nothing.example"),
    ] {
        let cookie = format!("longshore_console={token}");
        let request = Request::builder().uri(path).header("host", "test").header("cookie", cookie);
        let response = api.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream", "{path}");
        let mut body = response.into_body();
        let first =
            tokio::time::timeout(Duration::from_secs(30), body.frame()).await.unwrap().unwrap().unwrap();
        let text = String::from_utf8(first.into_data().unwrap().to_vec()).unwrap();
        let parts: Value = serde_json::from_str(text.split("data: ").nth(1).unwrap().trim()).unwrap();
        let list = parts["list"].as_str().unwrap();
        assert!(list.contains(shown) && !list.contains(hidden), "{path}: {list}");
    }
}

/// The places of texts on a page, which must all be there.
fn are_in_order(page: &str, texts: &[&str]) -> bool {
    let places: Vec<_> =
        texts.iter().map(|text| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"))).collect();
    places.is_sorted()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn webhooks_that_fail_come_first_unless_another_order_is_chosen(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let names: Vec<String> = (0..6).map(|n| format!("https://s{n}.example/")).collect();
    let mut hooks = Vec::new();
    for name in &names {
        hooks.push(webhook(api, name).await);
    }
    let disable =
        "UPDATE webhook SET active = false, disabled_at = now(), disabled_reason = 'gone' WHERE id = $1";
    let fail = "UPDATE webhook_lane SET failures = 7, failing_since = now() WHERE webhook_id = $1";
    for (statement, n) in [(fail, 0), (fail, 2), (disable, 1), (disable, 5)] {
        sqlx::query(statement).bind(hooks[n]).execute(&world.owner).await.unwrap();
    }
    let browser = Browser::new(api, &api.viewer);
    let link = |n: usize| format!("href=\"/console/webhook/{}\"", hooks[n]);
    for (query, order) in [
        ("", &[2, 0, 5, 1, 4, 3][..]),
        ("sort=newest", &[5, 4, 3, 2, 1, 0]),
        ("sort=oldest", &[0, 1, 2, 3, 4, 5]),
        ("health=failing", &[2, 0]),
        ("health=disabled&sort=oldest", &[1, 5]),
        ("health=healthy", &[4, 3]),
        ("text=s0.example", &[0]),
    ] {
        let page = browser.open(&format!("/console/webhook?{query}")).await.expect(200).text;
        let links: Vec<String> = order.iter().map(|n| link(*n)).collect();
        let links: Vec<&str> = links.iter().map(String::as_str).collect();
        assert!(are_in_order(&page, &links), "{query}: {page}");
        assert_eq!(page.matches("href=\"/console/webhook/").count(), order.len(), "{query}");
    }
    // each is on one page, whatever the order
    let more = 60;
    for n in 6..more {
        hooks.push(webhook(api, &format!("https://s{n}.example/")).await);
    }
    for hook in hooks.iter().skip(20).take(30) {
        sqlx::query(fail).bind(hook).execute(&world.owner).await.unwrap();
    }
    for sort in ["", "newest", "oldest"] {
        let (mut path, mut seen) = (format!("/console/webhook?size=25&sort={sort}"), Vec::new());
        loop {
            let page = browser.open(&path).await.expect(200).text;
            let rows = page.split("<a href=\"/console/webhook/").skip(1);
            seen.extend(rows.map(|rest| rest[..36].parse::<Uuid>().unwrap()));
            let Some(next) = next_page(&page) else { break };
            path = next;
        }
        assert_eq!(seen.len(), more, "{sort}");
        let mut once = seen.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), more, "{sort}");
    }
    browser.open("/console/webhook?sort=broken").await.expect(400);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn syncs_that_fail_come_first_unless_the_order_is_by_name(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let mut eshops = vec![api.tenant.eshop.get()];
    for n in 0..30 {
        eshops.push(Tenant::create(&api.services, &format!("Tenant {n:02}")).await.unwrap().eshop.get());
    }
    let failing = &eshops[25..];
    sqlx::query(
        "INSERT INTO integration_setting (id, eshop_id, organisation_id, integration_type, active, credentials, base_url,
             inventories, product_sync_enabled, product_sync_interval, stock_sync_enabled, stock_sync_interval,
             stock_reserve, error, error_at)
         SELECT uuid_v7(), s.id, s.organisation_id, 'feed', true, '', 'https://partner.example/', '{}', true, 60, true, 60, 0,
                'the partner answered 401', now()
         FROM eshop s WHERE s.id = ANY ($1)",
    )
    .bind(failing)
    .execute(&world.owner)
    .await
    .unwrap();
    let in_order = async |rank: &str| {
        let sql = format!("SELECT id FROM eshop s ORDER BY {rank} s.name, s.id");
        let ids: Vec<Uuid> =
            sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_all(&world.owner).await.unwrap();
        ids
    };
    let browser = Browser::new(api, &api.viewer);
    let is_well = "s.id NOT IN (SELECT eshop_id FROM integration_setting),";
    for (sort, expected) in [("", in_order(is_well).await), ("name", in_order("").await)] {
        let (mut path, mut seen) = (format!("/console/sync?size=25&sort={sort}"), Vec::new());
        loop {
            let page = browser.open(&path).await.expect(200).text;
            let rows = page.split("<strong><a href=\"/console/eshop/").skip(1);
            seen.extend(rows.map(|rest| rest[..36].parse::<Uuid>().unwrap()));
            let Some(next) = next_page(&page) else { break };
            path = next;
        }
        assert_eq!(seen, expected, "{sort}");
    }
    browser.open("/console/sync?sort=broken").await.expect(400);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_head_of_a_column_sorts_its_list_and_says_how_it_is_sorted(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    job(&world, &api.tenant, "failed", Some("it broke")).await;
    let hook = webhook(api, "https://shop.example/hook").await;
    super::webhooks::ended(&world, hook.into(), "exhausted", 1).await;
    let mug = world.add("MUG", json!({"name": "Harbour mug"})).await;
    let order = json!({
        "eshop": api.tenant.eshop, "orderNumber": "HELD-1", "value": 1, "currency": "EUR",
        "ignoreAddressValidation": true, "items": [{"product": mug, "quantity": 1}],
    });
    api.post(&api.user, "/api/expedition", order).await.expect(201);
    let browser = Browser::new(api, &api.viewer);
    for (path, column, sort, then) in [
        ("/console/job?state=failed", "Accepted", "descending", "/console/job?state=failed&sort=oldest"),
        (
            "/console/job?sort=oldest&after=1.00000000-0000-0000-0000-000000000007",
            "Accepted",
            "ascending",
            "/console/job",
        ),
        ("/console/delivery", "Made", "descending", "/console/delivery?sort=oldest"),
        (
            "/console/delivery?state=exhausted",
            "Ended or due",
            "descending",
            "/console/delivery?state=exhausted&sort=oldest",
        ),
        ("/console/webhook", "Health", "ascending", "/console/webhook"),
        ("/console/webhook?sort=newest", "Created", "descending", "/console/webhook?sort=oldest"),
        ("/console/webhook?sort=oldest", "Created", "ascending", "/console/webhook?sort=newest"),
        ("/console/sync?sort=name", "E-shop", "ascending", "/console/sync?sort=name"),
        ("/console/sync", "Error", "ascending", "/console/sync"),
        ("/console/order", "Created", "descending", "/console/order?sort=oldest"),
        ("/console/order?status=on_hold", "Since", "descending", "/console/order?status=on_hold&sort=oldest"),
    ] {
        let page = browser.open(path).await.expect(200).text;
        let then = then.replace('&', "&amp;");
        let head = format!("<th aria-sort=\"{sort}\"><a class=\"sort\" href=\"{then}\">{column}</a></th>");
        assert!(page.contains(&head), "{path}: {head}: {page}");
        assert_eq!(page.matches("aria-sort").count(), 1, "{path}: {page}");
    }
}
