//! The search of the bar, and the pages that it leads to.

use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use url::form_urlencoded;
use uuid::Uuid;

use super::{Browser, MIGRATIONS, job, webhook, world};
use crate::attention::{FAILS, RECOVERS, execute};
use crate::expedition::World as Orders;
use crate::product::World;
use crate::support::{Api, Reply};

/// Searches for a text.
async fn find(browser: &Browser<'_>, text: &str) -> Reply {
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("q", text).finish();
    browser.open(&format!("/console/find?{query}")).await
}

/// Where a search with one hit leads.
async fn leads(browser: &Browser<'_>, text: &str) -> String {
    let reply = find(browser, text).await.expect(303);
    reply.header("location").unwrap().to_owned()
}

/// Creates an order of a product of the tenant; returns its id.
async fn order(api: &Api, tenant: &Tenant, product: &str, number: &str) -> String {
    // each has its own carrier, whose code occurs once
    let carriers: Value =
        api.post(&api.superadmin, "/api/carrier/list", json!({"limit": 0})).await.expect(200).json();
    let code = 71 + carriers["paging"]["total"].as_u64().unwrap();
    let carrier =
        json!({"name": format!("Post {code}"), "code": code, "organisations": [tenant.organisation]});
    let carrier: Value = api.post(&api.superadmin, "/api/carrier", carrier).await.expect(201).json();
    let body = json!({
        "eshop": tenant.eshop, "orderNumber": number, "externalId": "ext-7", "value": 1, "currency": "EUR",
        "carrier": carrier["id"], "ignoreAddressValidation": true, "items": [{"product": product, "quantity": 2}],
    });
    let made: Value = api.post(&api.superadmin, "/api/expedition", body).await.expect(201).json();
    made["id"].as_str().unwrap().to_owned()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_an_operator_has_at_hand_leads_to_its_page(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let mug = world.add("MUG-1", json!({"name": "Harbour mug"})).await;
    let order = order(api, &api.tenant, &mug, "2026/4711").await;
    let hook = webhook(api, "https://hooks.alpine.example/in").await;
    let run = job(&world, &api.tenant, "failed", Some("no answer")).await;
    world.execute("UPDATE eshop SET name = 'Alpine Sport'").await;
    world.execute("UPDATE organisation SET name = 'Nordic Living'").await;
    let sku = "7d444840-9dc0-11d1-b245-5ffdce74fad2";
    let odd = world.add(sku, json!({"name": "Odd one"})).await;
    let stock: Option<Uuid> = sqlx::query_scalar("SELECT id FROM product_stock LIMIT 1")
        .fetch_optional(&world.owner)
        .await
        .unwrap();
    let supplier = json!({"organisation": api.tenant.organisation, "name": "Clay Works"});
    let supplier: Value = api.post(&api.user, "/api/supplier", supplier).await.expect(201).json();
    let supplier = supplier["id"].as_str().unwrap().to_owned();

    let browser = Browser::new(api, &api.superadmin);
    let (tenant, product) = (&api.tenant, format!("/console/product/{mug}"));
    let order = format!("/console/order/{order}");
    for (text, page) in [
        ("MUG-1".to_owned(), product.clone()),
        ("  mug-1 ".to_owned(), product.clone()),
        ("harbour M".to_owned(), product.clone()),
        (mug.to_uppercase(), product.clone()),
        (sku.to_owned(), format!("/console/product/{odd}")),
        ("2026/4711".to_owned(), order.clone()),
        ("# 2026/4711 ".to_owned(), order.clone()),
        ("ext-7".to_owned(), order.clone()),
        ("EXT-7".to_owned(), order),
        ("alpine.example".to_owned(), format!("/console/webhook/{hook}")),
        (hook.to_string(), format!("/console/webhook/{hook}")),
        (run.to_string(), format!("/console/job/{run}")),
        ("request-7".to_owned(), format!("/console/job/{run}")),
        ("pine sp".to_owned(), format!("/console/eshop/{}", tenant.eshop)),
        (tenant.eshop.to_string(), format!("/console/eshop/{}", tenant.eshop)),
        ("NORDIC".to_owned(), format!("/console/organisation/{}", tenant.organisation)),
        // without a page of its own: what the audit knows of it
        (supplier.clone(), format!("/console/audit?entity={supplier}")),
    ] {
        assert_eq!(leads(&browser, &text).await, page, "{text}");
    }
    if let Some(stock) = stock {
        assert_eq!(leads(&browser, &stock.to_string()).await, product);
    }
    for nothing in ["nothing-like-it", "%", "_UG-1", "\u{10ffff}", "00000000-0000-0000-0000-000000000001"] {
        let page = find(&browser, nothing).await.expect(200).text;
        assert!(page.contains("Nothing found."), "{nothing}: {page}");
    }
    find(&browser, &"x".repeat(201)).await.expect(400);
    assert!(find(&browser, " ").await.expect(200).text.contains("Nothing to look for."));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_is_found_by_its_number_in_the_bar_in_the_list_and_by_the_api(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let mug = world.add("MUG-1", json!({"name": "Mug"})).await;
    let id = order(api, &api.tenant, &mug, "SHOP-H1").await;
    let (stranger, theirs) = world.stranger().await;
    let foreign = order(api, &stranger, &theirs, "shop-h1").await;
    let eshop: String = sqlx::query_scalar("SELECT name FROM eshop WHERE id = $1")
        .bind(api.tenant.eshop)
        .fetch_one(&world.owner)
        .await
        .unwrap();
    let browser = Browser::new(api, &api.user);
    for typed in ["SHOP-H1", "shop-h1", "Shop-h1", "#SHOP-H1 "] {
        assert_eq!(leads(&browser, typed).await, format!("/console/order/{id}"), "{typed}");
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("number", typed).finish();
        let list = browser.open(&format!("/console/order?{query}")).await.expect(200).text;
        let link = format!("/console/order/{id}\"");
        assert!(list.contains(&link) && !list.contains(&foreign), "{typed}: {list}");
        let found: Value = api.post(&api.user, "/api/find", json!({"text": typed})).await.expect(200).json();
        let hit = json!({"kind": "order", "id": id, "name": "SHOP-H1", "of": eshop});
        assert_eq!(found, json!({"results": [hit], "more": []}), "{typed}");
    }
    // whoever sees both decides
    let both = api.post(&api.superadmin, "/api/find", json!({"text": "shop-h1"})).await.expect(200).json();
    assert_eq!(both["results"].as_array().map(Vec::len), Some(2), "{both}");
    for (body, field) in [
        (json!({}), "text"),
        (json!({"text": ""}), "text"),
        (json!({"text": "x".repeat(201)}), "text"),
        (json!({"text": "x", "kind": "order"}), "kind"),
    ] {
        let refused = api.post(&api.user, "/api/find", body).await.expect(400).json();
        assert_eq!(refused["violations"][0]["propertyPath"], field, "{refused}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_api_says_of_which_kind_there_is_more(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    for number in 0..=20 {
        world.add(&format!("M{number}"), json!({"name": format!("Mug {number}")})).await;
    }
    let found: Value = api.post(&api.user, "/api/find", json!({"text": "mug"})).await.expect(200).json();
    assert_eq!(found["more"], json!(["product"]));
    let results = found["results"].as_array().unwrap();
    assert!(results.len() == 20 && results.iter().all(|hit| hit["kind"] == "product"), "{found}");
    // an access token has its own id, although the list of its organisation shows it
    let token = json!({"name": "Till of the shop", "role": "user", "organisation": api.tenant.organisation});
    let token: Value = api.post(&api.superadmin, "/api/access-token", token).await.expect(201).json();
    let found: Value =
        api.post(&api.superadmin, "/api/find", json!({"text": "till of"})).await.expect(200).json();
    assert_eq!((&found["results"][0]["kind"], &found["results"][0]["id"]), (&json!("token"), &token["id"]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn several_hits_are_a_page_grouped_by_kind(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let mug = world.add("4711", json!({"name": "Mug"})).await;
    let order = order(api, &api.tenant, &mug, "4711").await;
    let page = find(&Browser::new(api, &api.superadmin), "4711").await.expect(200).text;
    assert!(page.contains("id=\"found-product\"") && page.contains("id=\"found-order\""), "{page}");
    assert!(page.contains(&format!("/console/product/{mug}\"")), "{page}");
    assert!(page.contains(&format!("/console/order/{order}\"")), "{page}");
    assert!(page.contains("value=\"4711\""), "the bar keeps what was searched for: {page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_others_have_neither_appears_nor_displaces_a_hit(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let (stranger, theirs) = world.stranger().await;
    let mine = world.add("MUG", json!({"name": "Mug"})).await;
    // more of theirs than a page shows, all of them newer and with the same name
    sqlx::query(
        "INSERT INTO product SELECT (jsonb_populate_record(p, jsonb_build_object('id', uuid_v7(),
             'product_sku', 'M' || n, 'name', 'Mug'))).* FROM product p, generate_series(1, 50) AS n WHERE p.id = $1",
    )
    .bind(theirs.parse::<Uuid>().unwrap())
    .execute(&world.owner)
    .await
    .unwrap();
    let token = stranger.token(&api.services, Role::Admin).await.unwrap();
    let order = order(api, &stranger, &theirs, "FOREIGN-1").await;
    let user = Browser::new(api, &api.user);
    assert_eq!(leads(&user, "mug").await, format!("/console/product/{mine}"));
    for foreign in
        [&theirs, &order, "FOREIGN-1", &stranger.eshop.to_string(), &stranger.organisation.to_string()]
    {
        assert!(find(&user, foreign).await.expect(200).text.contains("Nothing found."), "{foreign}");
    }
    let stranger_sees = Browser::new(api, &token);
    assert_eq!(leads(&stranger_sees, "FOREIGN-1").await, format!("/console/order/{order}"));
    for page in ["product", "order", "eshop", "organisation"] {
        let id = match page {
            "product" => theirs.clone(),
            "order" => order.clone(),
            "eshop" => stranger.eshop.to_string(),
            _ => stranger.organisation.to_string(),
        };
        user.open(&format!("/console/{page}/{id}")).await.expect(404);
        stranger_sees.open(&format!("/console/{page}/{id}")).await.expect(200);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_caller_of_one_eshop_finds_nothing_of_its_neighbour(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let neighbour = world.eshop().await;
    let mine = world.add("MINE", json!({"name": "Mine", "eshops": [api.tenant.eshop]})).await;
    let theirs = world.add("THEIRS", json!({"name": "Theirs", "eshops": [neighbour]})).await;
    let token = api.tenant.eshop_token(&api.services).await.unwrap();
    let browser = Browser::new(api, &token);
    assert_eq!(leads(&browser, "MINE").await, format!("/console/product/{mine}"));
    for foreign in ["THEIRS", "theirs", &theirs, &neighbour.to_string()] {
        assert!(find(&browser, foreign).await.expect(200).text.contains("Nothing found."), "{foreign}");
    }
    browser.open(&format!("/console/product/{theirs}")).await.expect(404);
    browser.open(&format!("/console/eshop/{neighbour}")).await.expect(404);
    // the pages of its own leave out what its role may not read
    let page = browser.open(&format!("/console/product/{mine}")).await.expect(200).text;
    assert!(!page.contains("product.create"), "a connector does not read the audit: {page}");
    let page = browser.open(&format!("/console/eshop/{}", api.tenant.eshop)).await.expect(200).text;
    assert!(!page.contains("webhooks-title"), "{page}");
    let page =
        browser.open(&format!("/console/organisation/{}", api.tenant.organisation)).await.expect(200).text;
    assert!(!page.contains(&format!("/console/eshop/{neighbour}")), "{page}");
}

/// Records an event of a product with a delivery that was answered with 500.
async fn exhausted(world: &World, product: &str, webhook: Uuid) -> (Uuid, Uuid) {
    sqlx::query_as(
        "WITH e AS (
             INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data, request_id, traceparent)
             VALUES (uuid_v7(), 'product_change', $1, 'product', $2, '{\"productSku\": \"MUG-1\"}', 'request-8',
                     '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01') RETURNING id, entity_id
         )
         INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
                                       attempt_count, attempts, created_at, finished_at)
         SELECT uuid_v7(), $3, $4, $1, id, 'product_change', entity_id, 'exhausted', 1,
                '[{\"number\": 1, \"at\": \"2026-03-01T14:30:00Z\", \"durationMs\": 7, \"status\": 500}]', now(), now() FROM e
         RETURNING id, event_id",
    )
    .bind(world.api.tenant.organisation)
    .bind(product.parse::<Uuid>().unwrap())
    .bind(webhook)
    .bind(world.api.tenant.eshop)
    .fetch_one(&world.owner)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_delivery_is_found_by_its_webhook_id_and_by_its_trace(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let mug = world.add("MUG-1", json!({"name": "Mug"})).await;
    let hook = webhook(api, "https://hooks.example/").await;
    let (delivery, event) = exhausted(&world, &mug, hook).await;
    sqlx::query("INSERT INTO audit (id, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes, request_id)
                 VALUES (uuid_v7(), 'token', 'x', 'product.update', 'product', $1, $2, '{}', 'request-8')")
        .bind(mug.parse::<Uuid>().unwrap())
        .bind(api.tenant.organisation)
        .execute(&world.owner)
        .await
        .unwrap();
    let browser = Browser::new(api, &api.superadmin);
    for id in [delivery, event] {
        assert_eq!(leads(&browser, &id.to_string()).await, format!("/console/delivery/{delivery}"));
    }
    // a test that waits, of a type that the webhook does not subscribe to
    let test = format!("/api/eshop-webhook/{hook}/test");
    let test = api.post(&api.user, &test, json!({"event": "sync_finished"})).await.expect(202).json();
    let page = format!("/console/delivery/{}", test["id"].as_str().unwrap());
    assert_eq!(leads(&browser, test["webhookId"].as_str().unwrap()).await, page);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    for text in ["request-8", trace, &format!("00-{trace}-00f067aa0ba902b7-01")] {
        assert_eq!(leads(&browser, text).await, "/console/audit?request=request-8", "{text}");
    }
    // neither is a stranger's
    let (stranger, _) = world.stranger().await;
    let token = stranger.token(&api.services, Role::Admin).await.unwrap();
    let stranger = Browser::new(api, &token);
    for text in [delivery.to_string(), event.to_string(), trace.to_owned(), "request-8".to_owned()] {
        assert!(find(&stranger, &text).await.expect(200).text.contains("Nothing found."), "{text}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_page_of_a_product_says_what_happened_to_it_on_a_day(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let mug = world.add("MUG-1", json!({"name": "Harbour mug"})).await;
    let hook = webhook(api, "https://hooks.example/in").await;
    exhausted(&world, &mug, hook).await;
    let stock = json!([{"sku": "MUG-1", "quantity": 12}]);
    let path = format!("/api/stock/sync?eshop={}", api.tenant.eshop);
    _ = api.post(&api.user, &path, stock).await;
    sqlx::query(
        "INSERT INTO stock_movement (id, organisation_id, product_id, warehouse_id, wms_id, kind, quantity, incoming, actor_type, actor_name)
         VALUES (uuid_v7(), $1, $2, $3, $4, 'counted', 12, 0, 'token', 'scanner')",
    )
    .bind(api.tenant.organisation)
    .bind(mug.parse::<Uuid>().unwrap())
    .bind(api.tenant.warehouse)
    .bind(api.tenant.wms)
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.superadmin);
    let path = format!("/console/product/{mug}");
    let today: String =
        sqlx::query_scalar("SELECT to_char(now(), 'YYYY-MM-DD')").fetch_one(&world.owner).await.unwrap();
    for query in [String::new(), format!("?day={today}"), "?since=2001-01-01T00:00".to_owned()] {
        let page = browser.open(&format!("{path}{query}")).await.expect(200).text;
        for said in ["product.create", "counted +12", "scanner", "hooks.example/in", ">500<", "exhausted"] {
            assert!(page.contains(said), "{query}, {said}: {page}");
        }
    }
    for query in ["?day=2001-01-02", "?until=2001-01-01T00:00", "?since=2999-01-01T00:00"] {
        let page = browser.open(&format!("{path}{query}")).await.expect(200).text;
        assert!(page.contains("Nothing happened in this period.") && !page.contains("counted +12"), "{page}");
    }
    // a wrong field is marked, and the form keeps it
    for (query, field) in
        [("?day=tuesday", "wrong-day"), ("?since=x", "wrong-since"), ("?until=1", "wrong-until")]
    {
        let page = browser.open(&format!("{path}{query}")).await.expect(400).text;
        let value = query.split('=').next_back().unwrap();
        assert!(page.contains(&format!("id=\"{field}\"")), "{query}: {page}");
        assert!(page.contains(&format!("value=\"{value}\"")), "{query}: {page}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_page_of_an_eshop_says_what_is_wrong_with_it(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.superadmin);
    let path = format!("/console/eshop/{}", api.tenant.eshop);
    let page = browser.open(&path).await.expect(200).text;
    assert!(page.contains("No webhook listens") && page.contains("No integration setting."), "{page}");

    let hook = webhook(api, "https://hooks.example/in").await;
    let page = browser.open(&path).await.expect(200).text;
    assert!(page.contains("Nothing is wrong."), "{page}");

    for _ in 0..3 {
        job(&world, &api.tenant, "failed", Some("the feed answers HTTP 401")).await;
    }
    sqlx::query("UPDATE webhook_lane SET failures = 4, failing_since = now() - interval '6 minutes' WHERE webhook_id = $1")
        .bind(hook)
        .execute(&world.owner)
        .await
        .unwrap();
    let page = browser.open(&path).await.expect(200).text;
    for said in [
        "product sync of Gifts shop has failed 3 times in",
        "https://hooks.example/in: failing for 6 min, 4 attempts in a row.",
        "class=\"tick bad\"",
        "the feed answers HTTP 401",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    // a cause is one line: the partner's error is that of the jobs
    sqlx::query(
        "INSERT INTO integration_setting (id, eshop_id, organisation_id, integration_type, active, credentials, base_url, inventories,
             product_sync_enabled, product_sync_interval, stock_sync_enabled, stock_sync_interval, stock_reserve, error, error_at, error_kind)
         VALUES (uuid_v7(), $1, $2, 'feed', true, '', 'https://partner.example/', '{}', true, 60, true, 60, 0,
             'the feed answers HTTP 401', now(), 'product.sync')",
    )
    .bind(api.tenant.eshop)
    .bind(api.tenant.organisation)
    .execute(&world.owner)
    .await
    .unwrap();
    let wrong = async |page: &str| {
        let page = browser.open(page).await.expect(200).text;
        page.split("id=\"wrong-title\"")
            .nth(1)
            .map(|part| part.split("</section>").next().unwrap().to_owned())
    };
    let shown = wrong(&path).await.unwrap();
    assert_eq!(shown.matches("the feed answers HTTP 401").count(), 1, "{shown}");
    // the page of its organisation says the same, and what its webhooks answer
    let organisation = format!("/console/organisation/{}", api.tenant.organisation);
    execute(&world, FAILS, hook).await;
    let shown = wrong(&organisation).await.unwrap();
    for said in
        ["hooks.example (Gifts shop)", "has failed 3 times", &format!("href=\"/console/webhook/{hook}\"")]
    {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    // a success ends it
    world.execute("UPDATE integration_setting SET error = NULL, error_at = NULL").await;
    job(&world, &api.tenant, "succeeded", None).await;
    execute(&world, RECOVERS, hook).await;
    let shown = wrong(&path).await.unwrap();
    assert!(shown.contains("Nothing is wrong."), "{shown}");
    assert_eq!(wrong(&organisation).await, None);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_incorrect_order_is_something_wrong_with_its_eshop_and_its_organisation(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = Orders::new(&options).await;
    let (api, tenant) = (&world.api, &world.api.tenant);
    world.at("incorrect", "7").await;
    let browser = Browser::new(api, &api.superadmin);
    for path in
        [format!("/console/eshop/{}", tenant.eshop), format!("/console/organisation/{}", tenant.organisation)]
    {
        let page = browser.open(&path).await.expect(200).text;
        assert!(
            page.contains("1 order is incorrect.") && !page.contains("Nothing is wrong."),
            "{path}: {page}"
        );
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_operators_set_up_is_found_by_those_who_may_see_it(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let tenant = &api.tenant;
    world.execute("UPDATE wms SET name = 'Northern halls'").await;
    sqlx::query(
        "INSERT INTO wms_setting (wms_id, organisation_id, active, paused, base_url, credentials, max_in_flight, secret, fills)
         VALUES ($1, $2, true, false, 'https://wms.halls.example/v1', '', 1, '', false)",
    )
    .bind(tenant.wms)
    .bind(tenant.organisation)
    .execute(&world.owner)
    .await
    .unwrap();
    let carrier = json!({"name": "Swift Parcels", "code": 72, "organisations": [tenant.organisation]});
    let carrier: Value = api.post(&api.superadmin, "/api/carrier", carrier).await.expect(201).json();
    let preference = json!({"organisation": tenant.organisation, "carrier": carrier["id"], "position": 1});
    let preference: Value =
        api.post(&api.superadmin, "/api/carrier-preference", preference).await.expect(201).json();
    let token = json!({"name": "Till of the shop", "role": "user", "organisation": tenant.organisation});
    let token: Value = api.post(&api.superadmin, "/api/access-token", token).await.expect(201).json();
    let user = json!({
        "organisation": tenant.organisation, "email": "olga@gifts.example", "firstName": "Olga", "lastName": "Zelená",
        "password": "correct horse battery",
    });
    let user: Value = api.post(&api.superadmin, "/api/business-user", user).await.expect(201).json();
    let id = |record: &Value| record["id"].as_str().unwrap().to_owned();
    let of = |list: &str| format!("/console/{list}?organisation={}", tenant.organisation);
    let places = [
        ("northern".to_owned(), format!("/console/wms/{}", tenant.wms)),
        ("wms.halls.example".to_owned(), format!("/console/wms/{}", tenant.wms)),
        (tenant.wms.to_string(), format!("/console/wms/{}", tenant.wms)),
        ("swift".to_owned(), of("preference")),
        (id(&preference), of("preference")),
        ("till of".to_owned(), format!("/console/token?id={}", id(&token))),
        (id(&token), format!("/console/token?id={}", id(&token))),
        ("olga zel".to_owned(), format!("/console/audit?by={}", id(&user))),
        ("OLGA@gifts.example".to_owned(), format!("/console/audit?by={}", id(&user))),
        (id(&user), format!("/console/audit?by={}", id(&user))),
    ];
    let own = tenant.token(&api.services, Role::Admin).await.unwrap();
    for token in [&api.superadmin, &own] {
        for (text, page) in &places {
            assert_eq!(&leads(&Browser::new(api, token), text).await, page, "{text}");
        }
    }
    // a developer of an e-shop may see the preferences, and nothing else of it
    let developer = Browser::new(api, &api.user);
    for text in ["northern", "wms.halls.example", "till of", "olga zel", "olga@gifts.example"] {
        assert!(find(&developer, text).await.expect(200).text.contains("Nothing found."), "{text}");
    }
    assert_eq!(leads(&developer, "swift").await, of("preference"));
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    for (text, _) in &places {
        let page = find(&Browser::new(api, &theirs), text).await.expect(200).text;
        assert!(page.contains("Nothing found."), "{text}: {page}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_token_that_is_pasted_leads_to_its_line_and_stands_in_no_url(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.superadmin);
    let body = json!({"name": "label printer", "role": "user", "organisation": api.tenant.organisation});
    let made: Value = api.post(&api.superadmin, "/api/access-token", body).await.expect(201).json();
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let seek = async |browser: &Browser<'_>, text: &str| {
        let page = browser.open("/console/order").await.expect(200).text;
        let bar = page
            .split("<form class=\"find\" method=\"post\"")
            .nth(1)
            .unwrap()
            .split("</form>")
            .next()
            .unwrap();
        let form_token = bar.split("name=\"form_token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        browser.send_bare("/console/find", &[("form_token", form_token), ("q", text)]).await
    };
    let line = format!("/console/token?id={id}");
    for _ in 0..2 {
        let reply = seek(&browser, token).await.expect(303);
        assert_eq!(reply.header("location"), Some(line.as_str()));
        // the second time, it is revoked
        api.delete(&api.superadmin, &format!("/api/access-token/{id}")).await.expect(204);
    }
    let page = browser.open(&line).await.expect(200).text;
    for part in ["label printer", "revoked", "by superadmin of a test", "What it did"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("/delete\"") && !page.contains("user of a test</strong>"), "{page}");
    browser.open(&format!("/console/token/{id}/delete")).await.expect(404);
    assert!(browser.open("/console/token").await.expect(200).text.contains("label printer"));
    assert_eq!(leads(&browser, "label printer").await, line);
    // nothing repeats it, whether it is known or not, and whoever asks
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    for browser in [&Browser::new(api, &theirs), &Browser::new(api, &api.user)] {
        for text in [token, "lsh_none"] {
            let page = seek(browser, text).await.expect(200).text;
            assert!(page.contains("Nothing found.") && !page.contains(text), "{page}");
        }
    }
    // anything else is an address
    let reply = seek(&browser, "shop & co").await.expect(303);
    assert_eq!(reply.header("location"), Some("/console/find?q=shop+%26+co"));
    let found: Value =
        api.post(&api.superadmin, "/api/find", json!({"text": token})).await.expect(200).json();
    assert_eq!((found["results"].as_array().unwrap().len(), &found["results"][0]["id"]), (1, &json!(id)));
}
