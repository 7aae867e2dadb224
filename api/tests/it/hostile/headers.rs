//! Request heads that are too large, have too many fields, or are too slow.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use longshore_http::limits::Limits;
use longshore_serve::{MAX_BYTES, MAX_FIELDS};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::socket::{Server, answer, head, write};
use super::{MIGRATIONS, PATIENCE, limited};
use crate::support::{Api, Reply};

const HOST: &str = "longshore.example";

async fn send(api: &Api, fields: &[(String, String)]) -> Reply {
    let mut request = Request::builder().uri("/health/live").header("host", HOST);
    for (name, value) in fields {
        request = request.header(name, value);
    }
    api.send(request.body(Body::empty()).unwrap()).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_head_is_bounded_in_bytes_and_in_fields(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let large = |bytes: usize| [("x".to_owned(), "y".repeat(bytes - 1))];
    let many = |count: usize| (0..count).map(|n| (format!("x-{n}"), String::new())).collect::<Vec<_>>();
    // each of them sends a Host, too
    let target = "/health/live".len() + "host".len() + HOST.len();
    send(&api, &large(MAX_BYTES - target)).await.expect(200);
    let reply = send(&api, &large(MAX_BYTES - target + 1)).await.expect(431);
    assert_eq!(reply.json()["code"], "headers_too_large");
    send(&api, &many(MAX_FIELDS - 1)).await.expect(200);
    let reply = send(&api, &many(MAX_FIELDS)).await.expect(431);
    assert_eq!(reply.json()["code"], "headers_too_large");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_oversized_head_is_refused_while_it_arrives(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, app) = limited(&options, Limits::default()).await;
    let server = Server::start(app).await;
    // a little too large: the answer has the common shape
    let (mut reader, mut writer) = server.connect().await.into_split();
    let value = "y".repeat(MAX_BYTES);
    let request = head("GET", "/health/live", &world.api.user, &[("X", &value)]);
    let (_, (status, problem)) = tokio::join!(write(&mut writer, request.as_bytes()), answer(&mut reader));
    assert_eq!((status, &problem["code"]), (431, &"headers_too_large".into()));
    // without end: the connection is closed
    let (mut reader, mut writer) = server.connect().await.into_split();
    let endless = async {
        let mut sent = 0;
        let mut open = write(&mut writer, b"GET / HTTP/1.1\r\nHost: test\r\n").await;
        while open && sent < 64 * 1024 * 1024 {
            open = write(&mut writer, format!("X-{sent}: {value}\r\n").as_bytes()).await;
            sent += value.len();
        }
        open
    };
    let both = async { tokio::join!(endless, answer(&mut reader)) };
    let (open, (status, _)) = tokio::time::timeout(PATIENCE, both).await.unwrap();
    assert!(!open && status == 431, "{status}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_target_that_is_too_long_is_refused_without_a_body(_: PgPoolOptions, options: PgConnectOptions) {
    let (_, app) = limited(&options, Limits::default()).await;
    let server = Server::start(app).await;
    // with the usual fields, the longest target that is read at all exceeds the limit of the head
    for (bytes, status, code) in [(65_534, 431, json!("headers_too_large")), (65_535, 414, Value::Null)] {
        let (mut reader, mut writer) = server.connect().await.into_split();
        let request = head("GET", &format!("/{}", "y".repeat(bytes - 1)), "nobody", &[]);
        let sent = write(&mut writer, request.as_bytes());
        let (_, (received, problem)) = tokio::join!(sent, answer(&mut reader));
        assert_eq!((received, &problem["code"]), (status, &code), "{bytes}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_head_that_never_ends_is_cut_off(_: PgPoolOptions, options: PgConnectOptions) {
    let limits = Limits { headers: Duration::from_millis(300), ..Limits::default() };
    let (_, app) = limited(&options, limits).await;
    let server = Server::start(app).await;
    let mut stream = server.connect().await;
    assert!(write(&mut stream, b"GET /health/live HTTP/1.1\r\nHost: te").await);
    // the connection is closed; an answer before that, if any, is no success
    let (status, _) = tokio::time::timeout(PATIENCE, answer(&mut stream)).await.unwrap();
    assert!(status == 0 || status == 408, "{status}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_body_has_no_transfer_coding_but_chunked(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, app) = limited(&options, Limits::default()).await;
    let server = Server::start(app).await;
    for (coding, status) in [
        (&["chunked"][..], 200),
        (&["Chunked"], 200),
        (&["gzip, chunked"], 501),
        (&["gzip", "chunked"], 501),
        (&["identity, chunked"], 501),
    ] {
        let fields: Vec<_> = coding.iter().map(|coding| ("Transfer-Encoding", *coding)).collect();
        let head = head("POST", "/api/product/list", &world.api.user, &fields);
        let mut stream = server.connect().await;
        assert!(write(&mut stream, format!("{head}0\r\n\r\n").as_bytes()).await);
        let (answered, problem) = answer(&mut stream).await;
        assert_eq!(answered, status, "{coding:?}: {problem}");
        if status == 501 {
            assert_eq!(problem["code"], "unsupported_transfer_encoding");
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_request_of_http_1_1_names_one_host(_: PgPoolOptions, options: PgConnectOptions) {
    let (_, app) = limited(&options, Limits::default()).await;
    let server = Server::start(app).await;
    let close = "Connection: close\r\n\r\n";
    for (head, status) in [
        ("GET /health/live HTTP/1.1\r\n", 400),
        ("GET /health/live HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n", 400),
        ("GET /health/live HTTP/1.1\r\nHost: a.example, b.example\r\n", 400),
        ("GET /health/live HTTP/1.1\r\nHost: a.example:8080\r\n", 200),
        ("GET /health/live HTTP/1.1\r\nHost:\r\n", 200),
        ("GET http://a.example/health/live HTTP/1.1\r\nHost: a.example\r\n", 200),
        ("GET /health/live HTTP/1.0\r\n", 200),
    ] {
        let mut stream = server.connect().await;
        assert!(write(&mut stream, format!("{head}{close}").as_bytes()).await);
        let (answered, problem) = answer(&mut stream).await;
        assert_eq!(answered, status, "{head}: {problem}");
        if status == 400 {
            assert_eq!(problem["code"], "invalid_header");
            assert!(problem["requestId"].is_string(), "{problem}");
        }
    }
}
