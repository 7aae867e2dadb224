use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{CONTENT_TYPE, DATE, ETAG, LAST_MODIFIED};
use longshore_domain::job::control;
use longshore_domain::partner::pull;
use longshore_domain::partner::push::Push;
use longshore_domain::partner::setting;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::receiver::{Answer, Document};
use longshore_worker::partner::{self, Place, StockCount};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::fake::{Fake, document};
use super::support::{gzip, lines, pull, row, store_setting, world_with_feed};
use crate::job::support::World;

const SUCCEEDED: &str = "succeeded";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_feed_in_any_form_becomes_products(_: PgPoolOptions, options: PgConnectOptions) {
    let rows: Vec<_> = (0..3).map(row).collect();
    let forms = [
        lines(3).into_bytes(),
        format!("{}\n{}", json!({"eshop": "who knows"}), lines(3)).into_bytes(),
        json!(rows).to_string().into_bytes(),
        serde_json::to_vec_pretty(&json!({"eshop": null, "products": rows})).unwrap(),
        gzip(lines(3).as_bytes()),
    ];
    let fake = Fake::start(|_| Answer::Status(204)).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    for (n, form) in forms.into_iter().enumerate() {
        fake.misbehave([Some(Answer::Document(document(form)))]);
        let job = pull(&world).await;
        world.drain().await;
        let counts = if n == 0 { [3, 0, 0] } else { [0, 3, 0] };
        assert_eq!(world.outcome(job).await, (SUCCEEDED.to_owned(), counts), "form {n}");
    }
    let sold = "SELECT count(*) FROM product p JOIN product_eshop e ON e.product_id = p.id WHERE p.name LIKE 'Thing no %'";
    assert_eq!(world.count(sold).await, 3);
    assert!(fake.receipts().iter().all(|asked| asked.query.as_deref() == Some("inventory=main")));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_unchanged_feed_costs_one_request_and_a_changed_one_is_read(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = Fake::start(|asked| {
        if asked.header("if-none-match") == Some("\"v1\"") {
            assert_eq!(asked.header("if-modified-since"), Some("Wed, 21 Oct 2099 07:28:00 GMT"));
            return Answer::Status(304);
        }
        // its clock is decades ahead: the header is sent back unchanged, and never compared with our clock
        let headers =
            vec![(ETAG, "\"v1\"".to_owned()), (LAST_MODIFIED, "Wed, 21 Oct 2099 07:28:00 GMT".to_owned())];
        Answer::Document(Document { headers, ..document(lines(2)) })
    })
    .await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    for counts in [[2, 0, 0], [0, 0, 0], [0, 0, 0]] {
        let job = pull(&world).await;
        world.drain().await;
        assert_eq!(world.outcome(job).await, (SUCCEEDED.to_owned(), counts));
    }
    assert_eq!(fake.receipts().len(), 3);
    // another URL is another feed
    store_setting(&world, &format!("{}other", fake.url()), json!({})).await;
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, (SUCCEEDED.to_owned(), [0, 2, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_date_alone_is_a_version_only_if_its_second_is_over(_: PgPoolOptions, options: PgConnectOptions) {
    // decades before our clock, which it is not compared with
    const MODIFIED: &str = "Wed, 21 Oct 2015 07:28:00 GMT";
    for (dated, is_asked) in [
        (MODIFIED, false),
        ("Wed, 21 Oct 2015 07:28:04 GMT", false),
        ("Wed, 21 Oct 2015 07:27:00 GMT", false),
        ("soon", false),
        ("Wed, 21 Oct 2015 07:28:05 GMT", true),
        ("Wednesday, 21-Oct-15 08:28:00 GMT", true),
    ] {
        let fake = Fake::start(move |asked| {
            if asked.header("if-modified-since") == Some(MODIFIED) {
                return Answer::Status(304);
            }
            let headers = vec![(LAST_MODIFIED, MODIFIED.to_owned()), (DATE, dated.to_owned())];
            Answer::Document(Document { headers, ..document(lines(2)) })
        })
        .await;
        let world = world_with_feed(&options, &fake, json!({})).await;
        let again = if is_asked { [0, 0, 0] } else { [0, 2, 0] };
        for counts in [[2, 0, 0], again] {
            let job = pull(&world).await;
            world.drain().await;
            assert_eq!(world.outcome(job).await, (SUCCEEDED.to_owned(), counts), "{dated}");
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_feed_that_was_not_completely_recorded_is_read_again(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = Fake::start(|asked| {
        assert_eq!(asked.header("if-none-match"), None, "a row of it was refused");
        let headers = vec![(ETAG, "\"v1\"".to_owned())];
        Answer::Document(Document {
            headers,
            ..document(format!("{}{}\n", lines(1), json!({"name": "nobody"})))
        })
    })
    .await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    for counts in [[1, 0, 1], [0, 1, 1]] {
        let job = pull(&world).await;
        world.drain().await;
        assert_eq!(world.outcome(job).await, (SUCCEEDED.to_owned(), counts));
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_feed_that_goes_back_to_an_earlier_version_is_read(_: PgPoolOptions, options: PgConnectOptions) {
    let version = |version: &str, lines: String| {
        Answer::Document(Document { headers: vec![(ETAG, version.to_owned())], ..document(lines) })
    };
    let fake = Fake::start(move |asked| match asked.header("if-none-match") {
        Some("v1") => Answer::Status(304),
        _ => version("v1", lines(2)),
    })
    .await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let other = |rows: &str| version("v2", lines(2).replace("Thing", "Other") + rows);
    let refused = json!({"name": "nobody"}).to_string();
    // all of it is stored, or a row is refused: in between the e-shop has what is not in the first version
    for (rows, counts) in [("", [2, 0, 0]), (refused.as_str(), [2, 0, 1])] {
        for (answer, counts) in [(None, [2, 0, 0]), (Some(other(rows)), counts), (None, [2, 0, 0])] {
            fake.misbehave([answer]);
            let job = pull(&world).await;
            world.drain().await;
            assert_eq!(world.outcome(job).await, (SUCCEEDED.to_owned(), counts), "{rows}");
        }
        world.execute("DELETE FROM product_eshop; DELETE FROM product; DELETE FROM partner_memo").await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_feed_is_read_again_after_the_retry_of_an_earlier_pull(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let version = |version: &str, lines: String| {
        Answer::Document(Document { headers: vec![(ETAG, version.to_owned())], ..document(lines) })
    };
    let second = lines(2).replace("Thing", "Other");
    let now = version("v2", second.clone());
    let fake = Fake::start(move |asked| match asked.header("if-none-match") {
        Some("v2") => Answer::Status(304),
        _ => now.clone(),
    })
    .await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    // a packaging type that is created later
    let odd = json!({"productSku": "F1", "name": "Thing no 1", "packagingType": "Z9"});
    fake.misbehave([Some(version("v1", format!("{}{odd}\n", lines(1))))]);
    let first = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(first).await, (SUCCEEDED.to_owned(), [1, 0, 1]));
    let pulled = async |counts| {
        let job = pull(&world).await;
        world.drain().await;
        assert_eq!(world.outcome(job).await, (SUCCEEDED.to_owned(), counts));
    };
    pulled([2, 0, 0]).await;
    pulled([0, 0, 0]).await;
    world.execute("INSERT INTO packaging_option (id, name, code) VALUES (uuid_v7(), 'Z', 'Z9')").await;
    control::retry(&world.services, &world.context, first).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(first).await, (SUCCEEDED.to_owned(), [2, 0, 0]));
    let older = "SELECT count(*) FROM product WHERE name = 'Thing no 1'";
    assert_eq!(world.count(older).await, 1, "it is written over the later one");
    pulled([1, 1, 0]).await;
    assert_eq!(world.count(older).await, 0);
    pulled([0, 0, 0]).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn invalid_rows_are_refused_one_by_one_and_the_others_are_accepted(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let rows = [
        row(0),
        row(0),
        json!({"productSku": "", "name": "no SKU"}),
        json!({"name": "none either"}),
        json!({"productSku": "nameless"}),
        json!({"productSku": "heavy", "name": "Heavy", "weight": "a lot"}),
        json!({"productSku": "bundle", "name": "Bundle", "type": "bundle"}),
        json!([1, 2]),
        row(1),
    ];
    let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    let feed = format!("{}\n{{\"productSku\": \"cut off", rows.join("\n"));
    let fake = Fake::start(move |_| Answer::Document(document(feed.clone()))).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let job = pull(&world).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, (SUCCEEDED.to_owned(), [2, 0, 8]));
    let expected = [
        "1 F0 duplicate",
        "2  invalid_length",
        "3 required",
        "4 nameless required",
        "5 heavy wrong_type",
        "6 bundle required",
        "7 malformed_row",
        "9 malformed_row",
    ];
    assert_eq!(world.errors(job).await, expected);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn credentials_are_sent_with_every_request_and_never_recorded(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = Fake::start(|asked| match asked.header("authorization") {
        Some("Bearer hush" | "Basic aGFycnk6aHVzaA==") => Answer::Document(document(lines(1))),
        _ => Answer::Status(401),
    })
    .await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    for (credentials, state) in [
        (json!({"type": "bearer", "token": "hush"}), SUCCEEDED),
        (json!({"type": "basic", "username": "harry", "password": "hush"}), SUCCEEDED),
        (json!({"type": "bearer", "token": "wrong"}), "failed"),
    ] {
        store_setting(&world, &fake.url(), json!({"credentials": credentials})).await;
        let job = pull(&world).await;
        world.drain().await;
        assert_eq!(world.outcome(job).await.0, state);
        assert!(!world.job(job).await.to_string().contains("hush"));
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn stocks_are_fetched_into_the_mapped_warehouse(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = Fake::start(|asked| {
        assert_eq!(asked.query.as_deref(), Some("warehouse=bl_7"));
        Answer::Document(document(
            r#"{"stocks":[{"productSku":"P0","quantity":5},{"productSku":"ghost","quantity":1}]}"#,
        ))
    })
    .await;
    let world = World::new(&options).await;
    let mapping = json!({"warehouseId": "bl_7", "warehouse": world.tenant.warehouse});
    store_setting(&world, &fake.url(), json!({"warehouses": [mapping]})).await;
    world.products(1).await;
    // by what the partner calls it, and by its id
    for (name, counts) in [("bl_7", [1, 0, 1]), (&*world.tenant.warehouse.to_string(), [0, 1, 1])] {
        let body = json!({"eshop": world.tenant.eshop, "warehouseId": name, "direction": "in"});
        let accepted = pull::accept(&world.services, &world.context, Push::Stocks, body).await;
        let job = accepted.unwrap().job.unwrap();
        world.drain().await;
        assert_eq!(world.outcome(job).await, (SUCCEEDED.to_owned(), counts));
        assert_eq!(world.errors(job).await, ["1 ghost unknown_product"]);
    }
    assert_eq!(world.count("SELECT quantity::bigint FROM product_stock").await, 5);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn stocks_are_sent_as_lines_by_put(_: PgPoolOptions, options: PgConnectOptions) {
    let fake = Fake::start(|_| Answer::Status(204)).await;
    let credentials = json!({"credentials": {"type": "bearer", "token": "hush"}});
    let world = world_with_feed(&options, &fake, credentials).await;
    let setting = setting::of_eshop(&world.services, world.tenant.eshop).await.unwrap().unwrap();
    let feed = partner::open(&world.worker.partners, &setting).unwrap();
    let place = Place { inventory: None, warehouse: "W 1".to_owned() };
    let count = |sku: &str, quantity| StockCount { item: None, product_sku: sku.to_owned(), quantity };
    let taken = feed.send_stocks(&place, &[count("A", 3), count("B\"", 0)]).await.unwrap();
    assert_eq!(taken.refused, []);
    let [sent] = fake.receipts().try_into().unwrap();
    assert_eq!((sent.method.as_str(), sent.query.as_deref()), ("PUT", Some("warehouse=W+1")));
    assert_eq!(sent.header(CONTENT_TYPE.as_str()), Some("application/x-ndjson"));
    assert_eq!(sent.header("authorization"), Some("Bearer hush"));
    let body = "{\"productSku\":\"A\",\"quantity\":3}\n{\"productSku\":\"B\\\"\",\"quantity\":0}\n";
    assert_eq!(sent.body, body);
    assert!(feed.abilities().stocks_per_call >= 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_feed_that_lost_its_column_is_held_back_and_read_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let active = Arc::new(AtomicBool::new(true));
    let served = Arc::clone(&active);
    let fake = Fake::start(move |asked| {
        let is_on = served.load(Ordering::SeqCst);
        let etag = if is_on { "\"on\"" } else { "\"off\"" };
        if asked.header("if-none-match") == Some(etag) {
            return Answer::Status(304);
        }
        let rows = (0..30)
            .map(|n| json!({"productSku": format!("T{n}"), "name": "Thing", "active": is_on}).to_string());
        let headers = vec![(ETAG, etag.to_owned())];
        Answer::Document(Document { headers, ..document(rows.collect::<Vec<_>>().join("\n")) })
    })
    .await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let on = "SELECT count(*) FROM product WHERE active";
    let pulled = async || {
        let job = pull(&world).await;
        world.drain().await;
        (world.outcome(job).await.1, world.job(job).await["withheld"].as_i64().unwrap())
    };
    assert_eq!(pulled().await, ([30, 0, 0], 0));
    assert_eq!(pulled().await, ([0, 0, 0], 0), "unchanged");
    active.store(false, Ordering::SeqCst);
    // a new setting has a guard of a fifth
    assert_eq!(pulled().await, ([0, 0, 0], 30));
    assert_eq!(world.count(on).await, 30);
    // what was withheld was not taken: the same feed is read again, and says it a second time
    assert_eq!(pulled().await, ([30, 0, 0], 0));
    assert_eq!(world.count(on).await, 0);
    assert_eq!(pulled().await, ([0, 0, 0], 0), "unchanged");
    // within the guard, it is executed after all else
    world.execute("UPDATE integration_setting SET guard = '{\"maxDeactivated\": 30}'").await;
    active.store(true, Ordering::SeqCst);
    assert_eq!(pulled().await, ([30, 0, 0], 0));
    active.store(false, Ordering::SeqCst);
    assert_eq!(pulled().await, ([30, 0, 0], 0));
    assert_eq!(pulled().await, ([0, 0, 0], 0), "unchanged");
    assert_eq!(world.count("SELECT count(*) FROM job WHERE state <> 'succeeded'").await, 0);
}
