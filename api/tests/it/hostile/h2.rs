//! HTTP/2 without TLS, as used by proxies: the same answers, limits and time-outs as with HTTP/1.1.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt as _, stream};
use http::{StatusCode, Version};
use longshore_http::limits::Limits;
use longshore_http::limits::Stall;
use longshore_kernel::unfold::{Coding, fold};
use longshore_serve::{MAX_BYTES, MAX_FIELDS, STREAMS};
use reqwest::{Body, Client, RequestBuilder, Response};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use uuid::Uuid;

use super::hang_up::close_jobs;
use super::socket::Server;
use super::{MIGRATIONS, PATIENCE, PRODUCTS, census, limited, until_as_before};
use crate::product::World;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// A client with prior knowledge of HTTP/2.
fn client() -> Client {
    _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().http2_prior_knowledge().timeout(PATIENCE).build().unwrap()
}

fn with(request: RequestBuilder, body: &Value) -> RequestBuilder {
    request.header("content-type", "application/json").body(body.to_string())
}

async fn json_of(answer: Response) -> Value {
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

/// Waits until the other side closes; returns what it sent.
async fn end(stream: &mut tokio::net::TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    let reading = async {
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            said.extend_from_slice(&buffer[..read]);
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap();
    said
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn concurrent_requests_on_one_connection_are_answered_independently(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, app) = limited(&options, Limits::default()).await;
    let server = Server::start(app).await;
    let client = client();
    let ids = join_all((0..2 * STREAMS).map(|n| {
        let body = world.body(&format!("A{n}"));
        let request = client.post(format!("{}/api/product", server.url())).bearer_auth(&world.api.user);
        async move {
            let answer = with(request, &body).send().await.unwrap();
            assert_eq!((answer.status(), answer.version()), (StatusCode::CREATED, Version::HTTP_2));
            let made = json_of(answer).await;
            made["id"].as_str().unwrap().to_owned()
        }
    }))
    .await;
    assert_eq!(ids.into_iter().collect::<BTreeSet<_>>().len(), 2 * STREAMS as usize);
    let list = client.post(format!("{}/api/product/list", server.url())).bearer_auth(&world.api.user);
    let list = json_of(list.send().await.unwrap()).await;
    assert_eq!(list["paging"]["returned"], 2 * STREAMS);
    // an answer without content has no length
    let id = list["results"][0]["id"].as_str().unwrap();
    let path = format!("{}/api/product/{id}", server.url());
    let deactivated =
        client.put(format!("{path}/deactivate")).bearer_auth(&world.api.user).send().await.unwrap();
    assert_eq!(deactivated.status(), StatusCode::NO_CONTENT);
    assert_eq!(deactivated.headers().get("content-length"), None);
    let known =
        client.get(path).bearer_auth(&world.api.user).header("if-none-match", "*").send().await.unwrap();
    assert_eq!((known.status(), known.headers().get("content-length")), (StatusCode::NOT_MODIFIED, None));
}

/// The header line, and this many rows, in pieces.
fn rows(world: &World, count: usize) -> impl Iterator<Item = String> + use<> {
    let header = format!("{}\n", json!({"eshop": world.api.tenant.eshop}));
    let row = |n| format!("{}\n", json!({"productSku": format!("A{n}"), "name": "Anchor"}));
    std::iter::once(header).chain((0..count).map(row))
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_long_upload_on_one_stream_does_not_block_others(_: PgPoolOptions, options: PgConnectOptions) {
    let limits = Limits { stall: Stall(Duration::from_secs(2)), ..Limits::default() };
    let (world, app) = limited(&options, limits).await;
    let server = Server::start(app).await;
    let client = client();
    let upload = |body: Body, coding: &str| {
        client
            .post(format!("{}{PRODUCTS}", server.url()))
            .bearer_auth(&world.api.connector)
            .header("content-type", "application/x-ndjson")
            .header("content-encoding", coding)
            .body(body)
            .send()
    };
    // one that stalls, and one that breaks off
    let before = census(&world).await;
    let stalled = stream::iter(rows(&world, 1_500).map(Ok::<_, std::io::Error>)).chain(stream::pending());
    let broken =
        stream::iter(rows(&world, 1_500).map(Ok)).chain(stream::iter([Err(std::io::Error::other("reset"))]));
    let (stalled, broken) = tokio::join!(
        upload(Body::wrap_stream(stalled), "identity"),
        upload(Body::wrap_stream(broken), "identity")
    );
    let stalled = stalled.unwrap();
    assert_eq!(stalled.status(), StatusCode::BAD_REQUEST);
    assert!(stalled.text().await.unwrap().contains("the body stalled"));
    assert!(broken.is_err());
    until_as_before(&world, &before).await;

    let plain: Vec<_> = rows(&world, 30_000).map(Ok::<_, std::io::Error>).collect();
    let text: String = rows(&world, 30_000).collect();
    let folded = fold(Coding::Zstd, text.as_bytes()).unwrap();
    let (one, other) = tokio::join!(
        upload(Body::wrap_stream(stream::iter(plain)), "identity"),
        upload(Body::from(folded), "zstd"),
    );
    for answer in [one.unwrap(), other.unwrap()] {
        assert_eq!(answer.status(), StatusCode::OK);
        let job = json_of(answer).await;
        assert_eq!(job["progress"]["total"], 30_000);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_head_is_bounded_as_over_http_1(_: PgPoolOptions, options: PgConnectOptions) {
    let (_, app) = limited(&options, Limits::default()).await;
    let server = Server::start(app).await;
    let client = client();
    let get = || client.get(format!("{}/health/live", server.url()));
    for (bytes, code) in [(MAX_BYTES, "headers_too_large"), (MAX_BYTES + 12 * 1024, "")] {
        let answer = get().header("x", "y".repeat(bytes)).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        assert!(answer.text().await.unwrap().contains(code));
    }
    let many = (0..=MAX_FIELDS).fold(get(), |request, n| request.header(format!("x-{n}"), ""));
    assert_eq!(many.send().await.unwrap().status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    // the connection stays open
    assert_eq!(get().send().await.unwrap().status(), StatusCode::OK);
    // but not for a head that goes on and on
    get().header("x", "y".repeat(3 * MAX_BYTES)).send().await.unwrap_err();
    assert_eq!(get().send().await.unwrap().status(), StatusCode::OK);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_connection_without_requests_is_closed(_: PgPoolOptions, options: PgConnectOptions) {
    let limits = Limits { headers: Duration::from_millis(300), ..Limits::default() };
    let (world, app) = limited(&options, limits).await;
    let server = Server::start(app).await;
    // incomplete HEADERS: END_HEADERS is not set, and no CONTINUATION follows
    let begun: &[u8] = &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82];
    for said in [
        b"".to_vec(),
        b"P".to_vec(),
        PREFACE[..20].to_vec(),
        PREFACE.to_vec(),
        [PREFACE, SETTINGS].concat(),
        [PREFACE, SETTINGS, begun].concat(),
    ] {
        let mut stream = server.connect().await;
        stream.write_all(&said).await.unwrap();
        end(&mut stream).await;
    }
    // this does not cut off a running request
    let prefer = [("prefer", "respond-async")];
    let ids = json!([Uuid::max()]);
    let method = http::Method::PUT;
    let job = world.api.call_with(&world.api.user, method, "/api/product/activate", ids, &prefer).await;
    let path = format!("{}/api/job/{}/events", server.url(), job.json()["id"].as_str().unwrap());
    let mut events = client().get(path).bearer_auth(&world.api.user).send().await.unwrap();
    let first = events.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"event: progress"), "{first:?}");
    let until = tokio::time::Instant::now() + Duration::from_secs(1);
    while let Ok(next) = tokio::time::timeout_at(until, events.chunk()).await {
        assert!(next.unwrap().is_some(), "the stream ended");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_process_that_stops_answers_running_requests_and_closes_its_connections(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, app) = limited(&options, Limits::default()).await;
    let server = Server::start(app).await;
    let mut idle = server.connect().await;
    let client = client();
    let url = server.url();
    assert_eq!(client.get(format!("{url}/health/live")).send().await.unwrap().status(), StatusCode::OK);
    // a change that waits for a lock
    let id = world.add("A", json!({})).await;
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM product WHERE id = $1::uuid FOR UPDATE")
        .bind(&id)
        .execute(&mut *gate)
        .await
        .unwrap();
    let change = client.put(format!("{url}/api/product/{id}")).bearer_auth(&world.api.user);
    let change = tokio::spawn(with(change, &json!({"name": "Buoy"})).send());
    world.blocked(1).await;
    server.stop();
    end(&mut idle).await;
    gate.commit().await.unwrap();
    let answer = change.await.unwrap().unwrap();
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_2));
    server.ended().await;
    assert!(client.get(format!("{url}/health/live")).send().await.is_err());
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn streams_of_events_end_when_the_listener_closes(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, app) = limited(&options, Limits::default()).await;
    let server = Server::start(app.clone()).await;
    let (url, client) = (server.url(), client());
    let prefer = [("prefer", "respond-async")];
    let method = http::Method::PUT;
    let ids = json!([Uuid::max()]);
    let job = world.api.call_with(&world.api.user, method, "/api/product/activate", ids, &prefer).await;
    let job = format!("{url}/api/job/{}/events", job.json()["id"].as_str().unwrap());
    let page = format!("{url}/console/queue/live");
    let open = async || {
        let mut job = client.get(&job).bearer_auth(&world.api.user).send().await.unwrap();
        let cookie = format!("longshore_console={}", world.api.superadmin);
        let mut page = client.get(&page).header("cookie", cookie).send().await.unwrap();
        assert!(job.chunk().await.unwrap().unwrap().starts_with(b"event: progress"));
        assert!(page.chunk().await.unwrap().unwrap().starts_with(b"event: parts"));
        (job, page)
    };
    let before = open().await;
    // while the load balancer notices, they are served as before
    app.stopping.cancel();
    let meanwhile = open().await;
    server.stop();
    // sooner than the time of a stream of a page is over
    let soon = Duration::from_secs(10);
    tokio::time::timeout(soon, async {
        for (job, page) in [before, meanwhile] {
            let rest = job.text().await.unwrap();
            assert!(!rest.contains("event: end"), "the job has not ended: {rest}");
            assert!(page.text().await.unwrap().ends_with("event: end\ndata: over\n\n"));
        }
        server.ended().await;
    })
    .await
    .unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_request_whose_stream_is_reset_is_undone(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, app) = limited(&options, Limits::default()).await;
    let server = Server::start(app).await;
    let before = census(&world).await;
    let gate = close_jobs(&world).await;
    let client = client();
    let bulk = client.put(format!("{}/api/product/activate", server.url())).bearer_auth(&world.api.user);
    let bulk = with(bulk.header("idempotency-key", "k"), &json!([Uuid::max()]));
    let bulk = tokio::spawn(bulk.send());
    world.blocked(1).await;
    bulk.abort();
    // the key is released even while the database does not answer, and the connection stays open
    world.until("SELECT count(*) FROM idempotency", 0).await;
    let live = client.get(format!("{}/health/live", server.url())).send().await.unwrap();
    assert_eq!(live.status(), StatusCode::OK);
    gate.rollback().await.unwrap();
    until_as_before(&world, &before).await;
}
