//! The resources that one organisation uses, and those left for others: connections, memory, the network.

use std::pin::pin;
use std::time::{Duration, Instant};

use axum::body::Body;
use futures::channel::mpsc;
use futures::future::join_all;
use http::{Method, Request};
use longshore_http::app::App;
use longshore_http::limits::Limits;
use longshore_kernel::access::Role;
use longshore_kernel::share::{Ledger, Who};
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::io::AsyncReadExt as _;
use tower::ServiceExt as _;
use uuid::Uuid;

use crate::hostile::limited;
use crate::hostile::socket::{Server, answer, head, write};
use crate::list::fixture::store_many;
use crate::product::{World, body};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;
const SYNC: &str = "/api/partner-integration/eshop/sync/products";
const PATIENCE: Duration = Duration::from_secs(30);

/// Sessions that stand before a lock.
const BEFORE_A_LOCK: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// Waits until all of them are released.
async fn all_are_back(ledger: &Ledger) {
    let back = async {
        while ledger.used() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, back).await.unwrap();
}

/// Another organisation, and the token of its user.
async fn neighbour(world: &World) -> (Tenant, String) {
    let other = Tenant::create(&world.api.services, "Neighbour").await.unwrap();
    let user = other.token(&world.api.services, Role::User).await.unwrap();
    (other, user)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn slow_lists_leave_another_organisation_its_page(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let (_, user) = neighbour(&world).await;
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::query("LOCK TABLE supplier IN ACCESS EXCLUSIVE MODE").execute(&mut *gate).await.unwrap();
    let lists = join_all((0..8).map(|_| api.post(&api.user, "/api/supplier/list", Value::Null)));
    let other = async {
        // half of the eight connections for lists
        world.until(BEFORE_A_LOCK, 4).await;
        for _ in 0..3 {
            api.post(&user, "/api/product/list", Value::Null).await.expect(200);
        }
        assert_eq!(world.count(BEFORE_A_LOCK).await, 4);
        gate.rollback().await.unwrap();
    };
    let (lists, ()) = tokio::join!(lists, other);
    // a request that waited for the others' connections gets one; on a slow machine a list may have timed out
    assert!(lists.iter().all(|reply| matches!(reply.status.as_u16(), 200 | 503)));
    all_are_back(api.services.db.lists.places()).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn requests_for_a_locked_row_leave_connections_to_others_and_the_process_ready(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let product = world.add("A", json!({})).await;
    let (other, user) = neighbour(&world).await;
    let theirs = api.post(&user, "/api/product", body(&other, "A")).await.expect(201);
    let theirs = theirs.header("location").unwrap().to_owned();
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM product WHERE id = $1::uuid FOR UPDATE")
        .bind(&product)
        .execute(&mut *gate)
        .await
        .unwrap();
    let puts = join_all((0..60).map(|n| world.put(&product, json!({"name": format!("Mug {n}")}))));
    let others = async {
        // three quarters of twelve
        world.until(BEFORE_A_LOCK, 9).await;
        for _ in 0..10 {
            api.get(&user, &theirs).await.expect(200);
            let ready = api.get("", "/health/ready").await.expect(200).json();
            assert_eq!(ready["postgres"], "up");
        }
        assert_eq!(world.count(BEFORE_A_LOCK).await, 9);
        gate.rollback().await.unwrap();
    };
    let (puts, ()) = tokio::join!(puts, others);
    // on a slow machine the last of them may have timed out
    assert!(puts.iter().all(|reply| matches!(reply.status.as_u16(), 200 | 409 | 429 | 503)));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_first_requests_with_a_token_look_it_up_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::query("LOCK TABLE access_token IN ACCESS EXCLUSIVE MODE").execute(&mut *gate).await.unwrap();
    let path = format!("/api/product/{}", Uuid::nil());
    let first = join_all((0..100).map(|_| api.get(&api.user, &path)));
    let others = async {
        world.until(BEFORE_A_LOCK, 1).await;
        assert_eq!(api.services.db.main.places().used(), 1);
        gate.rollback().await.unwrap();
    };
    let (first, ()) = tokio::join!(first, others);
    // on a slow machine the look-up may have timed out
    assert!(first.iter().all(|reply| matches!(reply.status.as_u16(), 404 | 503)));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_busy_pool_is_distinguished_from_an_unavailable_postgres(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let product = world.add("A", json!({})).await;
    // calls outside a request have no share
    let held = join_all((0..12).map(|_| api.services.db.main.acquire())).await;
    assert!(held.iter().all(Result::is_ok));
    let began = Instant::now();
    let reply = api.get(&api.user, &format!("/api/product/{product}")).await.expect(503);
    // five seconds in all, for the token and the product together
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(reply.json()["detail"], "all connections to the database are in use; try again in a moment");
    assert!(reply.header("retry-after").is_some());
    assert_eq!(api.get("", "/health/ready").await.expect(200).json()["postgres"], "up");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_client_that_disconnects_keeps_its_place_until_postgres_has_finished(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::query("LOCK TABLE supplier IN ACCESS EXCLUSIVE MODE").execute(&mut *gate).await.unwrap();
    for started in 1..=4 {
        let asked = api.post(&api.user, "/api/supplier/list", Value::Null);
        tokio::select! {
            reply = asked => panic!("{}", reply.status),
            () = world.until(BEFORE_A_LOCK, started) => {}
        }
    }
    let places = api.services.db.lists.places();
    assert_eq!(places.used(), 4);
    gate.rollback().await.unwrap();
    all_are_back(places).await;
    api.post(&api.user, "/api/supplier/list", Value::Null).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_busy_organisation_waits_for_a_processor_and_its_neighbour_does_not(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, app) = limited(&options, Limits::default()).await;
    let (api, pace) = (&world.api, &app.limits.pace);
    let (_, user) = neighbour(&world).await;
    let who = Who { group: api.tenant.organisation.get(), account: Uuid::nil() };
    let mut held: Vec<_> = std::iter::from_fn(|| pace.places().take(who, 1).ok()).collect();
    let list = async |token: &str| api.post(token, "/api/product/list", json!({"limit": 1})).await;
    let busy = async {
        loop {
            pace.used(who, Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    };
    let turns = async {
        let mut waiting = pin!(list(&api.user));
        for _ in 0..20 {
            tokio::select! {
                reply = &mut waiting => panic!("it did not wait: {}", reply.status),
                reply = list(&user) => reply.expect(200),
            };
        }
        held.clear();
        waiting.await.expect(200);
    };
    tokio::select! {
        () = busy => {}
        () = turns => {}
    }
    all_are_back(pace.places()).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_busy_organisation_that_gets_no_processor_in_time_is_refused(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, app) = limited(&options, Limits::default()).await;
    let (api, pace) = (&world.api, &app.limits.pace);
    let (_, user) = neighbour(&world).await;
    let who = Who { group: api.tenant.organisation.get(), account: Uuid::nil() };
    let mut held: Vec<_> = std::iter::from_fn(|| pace.places().take(who, 1).ok()).collect();
    let list = async |token: &str| api.post(token, "/api/product/list", json!({"limit": 1})).await;
    let busy = async {
        loop {
            pace.used(who, Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let turns = async {
        let began = Instant::now();
        let refused = list(&api.user).await.expect(429);
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        assert_eq!(refused.json()["code"], "share_used");
        assert!(refused.header("retry-after").is_some());
        list(&user).await.expect(200);
        held.clear();
        list(&api.user).await.expect(200);
    };
    tokio::select! {
        () = busy => {}
        () = turns => {}
    }
    all_are_back(pace.places()).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn endless_bodies_have_a_share_of_memory(_: PgPoolOptions, options: PgConnectOptions) {
    let limits =
        Limits { bodies: Ledger::new("memory for request bodies", 512 * 1024, 1), ..Limits::default() };
    let (world, app) = limited(&options, limits).await;
    let api = &world.api;
    let (_, user) = neighbour(&world).await;
    let path = format!("/api/product/{}/image/upload", world.add("A", json!({})).await);
    let (sender, receiver) = mpsc::unbounded::<Result<Vec<u8>, std::io::Error>>();
    sender.unbounded_send(Ok(vec![b' '; 200 * 1024])).unwrap();
    let begun = Request::put(&path)
        .header("authorization", format!("Bearer {}", api.user))
        .header("content-type", "application/json")
        .body(Body::from_stream(receiver))
        .unwrap();
    let list = |token: &str| {
        let body = format!("{}{}", " ".repeat(100 * 1024), json!({"limit": 1}));
        let request = Request::post("/api/product/list")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json");
        api.send(request.body(Body::from(body)).unwrap())
    };
    let others = async {
        let held = async {
            while app.limits.bodies.used() < 200 * 1024 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, held).await.unwrap();
        let refused = list(&api.connector).await.expect(429);
        assert_eq!(refused.json()["code"], "share_used");
        assert!(refused.header("retry-after").is_some());
        list(&user).await.expect(200);
        sender.unbounded_send(Ok(b"{}".to_vec())).unwrap();
        drop(sender);
    };
    let (reply, ()) = tokio::join!(api.send(begun), others);
    reply.expect(400);
    assert_eq!(app.limits.bodies.used(), 0);
    list(&api.connector).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_client_that_leaves_answers_unread_gets_no_more(_: PgPoolOptions, options: PgConnectOptions) {
    let limits =
        Limits { answers: Ledger::new("memory for unread responses", 256 * 1024, 1), ..Limits::default() };
    let (world, app) = limited(&options, limits).await;
    let api = &world.api;
    store_many(api, 200).await;
    let (_, user) = neighbour(&world).await;
    let ask = |token: &str| {
        let request = Request::post("/api/product/list")
            .header("host", "test")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json");
        api.router.clone().oneshot(request.body(Body::from(json!({"limit": 200}).to_string())).unwrap())
    };
    let mut unread = Vec::new();
    while app.limits.answers.used() < 128 * 1024 {
        let response = ask(&api.user).await.unwrap();
        assert_eq!(response.status(), 200);
        unread.push(response);
    }
    assert!(unread.len() < 4);
    let refused = api.post(&api.connector, "/api/product/list", Value::Null).await.expect(429);
    assert_eq!(refused.json()["code"], "share_used");
    api.post(&user, "/api/product/list", Value::Null).await.expect(200);
    drop(unread);
    assert_eq!(app.limits.answers.used(), 0);
    api.post(&api.connector, "/api/product/list", json!({"limit": 1})).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_reader_that_reads_nothing_is_cut_off_and_releases_everything(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let limits = Limits { reader: Duration::from_millis(300), ..Limits::default() };
    let (world, app) = limited(&options, limits).await;
    store_many(&world.api, 40_000).await;
    let server = Server::start(app).await;
    for fields in [json!({}), json!({"limit": 10_000, "nested": true})] {
        let body = fields.to_string();
        let length = body.len().to_string();
        let head = head(
            "POST",
            "/api/product/list",
            &world.api.user,
            &[("content-type", "application/json"), ("content-length", &length)],
        );
        let mut stream = server.connect().await;
        assert!(write(&mut stream, format!("{head}{body}").as_bytes()).await);
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        let db = &world.api.services.db;
        let back = async {
            while db.streams.places().used() + db.lists.places().used() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, back).await.unwrap();
        // the rest that is read afterwards is incomplete
        let (_, body) = answer(&mut stream).await;
        assert_eq!(body, Value::Null);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_long_page_is_sent_in_pieces_with_the_same_contents(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    store_many(api, 6_000).await;
    for nested in [false, true] {
        let ask = |limit: i64, offset: i64| {
            let body = json!({"limit": limit, "offset": offset, "nested": nested, "sort": [{"field": "productSku"}]});
            api.post(&api.user, "/api/product/list", body)
        };
        let long = ask(5_000, 500).await.expect(200);
        assert!(long.bytes.len() > 2 * 1024 * 1024 && long.header("content-length").is_none());
        let mut long = long.json();
        let next = long["paging"].as_object_mut().unwrap().remove("next").unwrap();
        assert_eq!(long["paging"], json!({"returned": 5_000, "from": 500, "to": 5_500, "total": 6_000}));
        let mut short = Vec::new();
        for page in 0..20 {
            let answer = ask(250, 500 + 250 * page).await.expect(200).json();
            assert_eq!(answer["paging"]["total"], 6_000);
            short.extend(answer["results"].as_array().unwrap().clone());
        }
        assert_eq!(long["results"], Value::Array(short));
        let rest = ask(1_000, 5_500).await.json();
        assert_eq!(rest["paging"]["to"], 6_000);
        // the cursor of a page that was sent in pieces
        let body =
            json!({"limit": 1_000, "after": next, "nested": nested, "sort": [{"field": "productSku"}]});
        assert_eq!(api.post(&api.user, "/api/product/list", body).await.expect(200).json(), rest);
    }
    all_are_back(api.services.db.lists.places()).await;
}

/// Sends a sync as one document.
async fn sync(world: &World, document: String) -> crate::support::Reply {
    let request = Request::post(SYNC)
        .header("authorization", format!("Bearer {}", world.api.connector))
        .header("content-type", "application/json");
    world.api.send(request.body(Body::from(document)).unwrap()).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_rows_of_a_document_are_checked_while_they_arrive(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let eshop = world.api.tenant.eshop;
    let with = |rows: &str| format!(r#"{{"eshop":"{eshop}","products":[{rows}]}}"#);
    let zeros = sync(&world, with(&vec!["0"; 4_000_000].join(","))).await.expect(400);
    assert_eq!(zeros.violations(), ["products[0] wrong_type"]);
    let many = sync(&world, with(&vec!["{}"; 100_001].join(","))).await.expect(400);
    assert_eq!(many.violations(), ["products invalid_count"]);
    assert!(many.text.contains("application/x-ndjson"), "{}", many.text);
    let row = r#"{"productSku":"A","name":"Mug"}"#;
    for (document, detail) in [
        (format!(r#"{{"eshop":"{eshop}","products":[{row}"#), "ends before its rows are complete"),
        (format!(r#"{{"eshop":"{eshop}","products":[{row},]}}"#), "an element of the array is missing"),
        (format!(r#"{{"eshop":"{eshop}","products":[{row}]"#), "the body is not a JSON object"),
        (with(r#"{"productSku":}"#), "products[0] is not valid JSON"),
        (format!("{} x", with(row)), "the body is not a JSON object"),
    ] {
        let reply = sync(&world, document).await.expect(400).json();
        assert_eq!(reply["code"], "malformed_body");
        assert!(reply["detail"].as_str().unwrap().contains(detail), "{detail}: {reply}");
    }
    let twice = format!(r#"{{"products":[{row}],"eshop":"{eshop}","products":[]}}"#);
    assert_eq!(sync(&world, twice).await.expect(400).violations(), ["products repeated_key"]);
    assert_eq!(world.count("SELECT count(*) FROM job").await, 0);
    // members may have any order, and escaped names
    for document in [
        format!(r#"{{"products":[{row},{row}],"eshop":"{eshop}"}}"#),
        format!(r#"{{"pro\u0064ucts":[{row},{row}],"eshop":"{eshop}"}}"#),
        format!("{{\n \"eshop\" : \"{eshop}\",\n \"products\" : [\n {row} ,\n {row}\n ]\n}}\n"),
    ] {
        let job = sync(&world, document).await.expect(200).json();
        assert_eq!(job["progress"]["total"], 2, "{job}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_body_with_too_many_values_for_memory_is_refused(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let body = format!("[{}]", vec![r#"{"":0}"#; 140_000].join(","));
    let request = Request::builder()
        .method(Method::POST)
        .uri("/api/product/list")
        .header("authorization", format!("Bearer {}", api.user))
        .header("content-type", "application/json");
    let reply = api.send(request.body(Body::from(body)).unwrap()).await.expect(413);
    assert_eq!(reply.json()["code"], "too_large");
    // realistic requests are far below it
    let ids: Vec<String> = (0..100_000_u128).map(|n| Uuid::from_u128(n).to_string()).collect();
    let prefer = [("prefer", "respond-async")];
    api.call_with(&api.user, Method::PUT, "/api/product/activate", json!(ids), &prefer).await.expect(202);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_account_may_use_half_of_the_connections_for_streams(_: PgPoolOptions, options: PgConnectOptions) {
    let services = services::for_test(&options).unwrap();
    let world = World::over(crate::support::Api::with(App::new(services)).await, &options).await;
    let api = &world.api;
    store_many(api, 20_000).await;
    let ask = |token: &str| {
        let request = Request::post("/api/product/list")
            .header("host", "test")
            .header("authorization", format!("Bearer {token}"));
        api.router.clone().oneshot(request.body(Body::empty()).unwrap())
    };
    let (first, second) = (ask(&api.user).await.unwrap(), ask(&api.user).await.unwrap());
    assert!(first.status() == 200 && second.status() == 200);
    let third = ask(&api.user).await.unwrap();
    assert_eq!(third.status(), 429);
    let other = ask(&api.superadmin).await.unwrap();
    assert_eq!(other.status(), 200);
    drop((first, second, other));
}
