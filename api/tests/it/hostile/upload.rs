//! Uploads line by line over a real socket: endless lines, and clients that stall, drip or vanish.

use std::fmt::Write as _;
use std::time::Duration;

use longshore_http::limits::Limits;
use longshore_http::limits::Stall;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::socket::{Server, answer, chunk, head, write};
use super::{MIGRATIONS, PATIENCE, PRODUCTS, census, limited, until_as_before};
use crate::product::World;

const NDJSON: (&str, &str) = ("Content-Type", "application/x-ndjson");
const CHUNKED: (&str, &str) = ("Transfer-Encoding", "chunked");

/// The header line, and this many rows.
fn rows(world: &World, count: usize) -> Vec<u8> {
    let mut text = json!({"eshop": world.api.tenant.eshop}).to_string();
    for n in 0..count {
        write!(text, "\n{}", json!({"productSku": format!("A{n}"), "name": "Anchor"})).unwrap();
    }
    text.push('\n');
    text.into_bytes()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_line_of_2_gib_is_refused_after_a_mebibyte(_: PgPoolOptions, options: PgConnectOptions) {
    const PIECE: usize = 64 * 1024;
    const LINE: usize = 2 * 1024 * 1024 * 1024;
    let (world, app) = limited(&options, Limits::default()).await;
    let before = census(&world).await;
    let server = Server::start(app).await;
    let (mut reader, mut writer) = server.connect().await.into_split();
    let request = head("POST", PRODUCTS, &world.api.connector, &[NDJSON, CHUNKED]);
    let first = chunk(&rows(&world, 1_500));
    let sending = async {
        assert!(write(&mut writer, request.as_bytes()).await);
        assert!(write(&mut writer, &first).await);
        let piece = chunk(&vec![b'x'; PIECE]);
        let mut sent = 0;
        while sent < LINE && write(&mut writer, &piece).await {
            sent += PIECE;
        }
        sent
    };
    let both = async { tokio::join!(sending, answer(&mut reader)) };
    let (sent, (status, body)) = tokio::time::timeout(PATIENCE, both).await.unwrap();
    assert_eq!(status, 400, "{body}");
    assert_eq!(body["code"], "malformed_body");
    assert_eq!(body["detail"], "line 1502 is longer than 1048576 bytes");
    // bytes that the service did not read still fill the buffers of both sockets
    assert!(sent < 64 * 1024 * 1024, "{sent} bytes of the line were taken");
    until_as_before(&world, &before).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_client_that_stops_in_the_middle_is_refused_and_leaves_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let limits = Limits { stall: Stall(Duration::from_millis(300)), ..Limits::default() };
    let (world, app) = limited(&options, limits).await;
    let server = Server::start(app).await;
    let before = census(&world).await;
    let key = ("Idempotency-Key", "k");
    for (path, fields, body) in [
        (PRODUCTS, vec![NDJSON, CHUNKED, key], chunk(&rows(&world, 1_500))),
        (PRODUCTS, vec![NDJSON, CHUNKED, key], Vec::new()),
        (PRODUCTS, vec![("Content-Type", "application/json"), ("Content-Length", "100"), key], b"{".to_vec()),
        ("/api/product", vec![("Content-Type", "application/json"), CHUNKED, key], chunk(b"{\"name\": \"An")),
        ("/api/product/list", vec![("Content-Type", "application/json"), CHUNKED], Vec::new()),
    ] {
        let mut stream = server.connect().await;
        let head = head("POST", path, &world.api.user, &fields);
        assert!(write(&mut stream, head.as_bytes()).await && write(&mut stream, &body).await);
        let (status, problem) = tokio::time::timeout(PATIENCE, answer(&mut stream)).await.unwrap();
        assert_eq!(status, 400, "{path}: {problem}");
        assert_eq!(problem["detail"], "the body stalled for 0.3 s", "{path}");
        // the key can be used again
        assert_eq!(census(&world).await, before, "{path}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_client_that_drips_is_refused_like_one_that_stops(_: PgPoolOptions, options: PgConnectOptions) {
    let limits = Limits { stall: Stall(Duration::from_millis(500)), ..Limits::default() };
    let (world, app) = limited(&options, limits).await;
    let server = Server::start(app).await;
    let before = census(&world).await;
    for content_type in ["application/x-ndjson", "application/json"] {
        let head = head("POST", PRODUCTS, &world.api.connector, &[("Content-Type", content_type), CHUNKED]);
        let (status, problem) = server.drip(&head, &rows(&world, 1_500)).await;
        assert_eq!(status, 400, "{problem}");
        assert_eq!(problem["detail"], "the body stalled for 0.5 s", "{content_type}");
        assert_eq!(census(&world).await, before);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_connection_that_is_cut_half_way_removes_its_job_and_releases_its_key_at_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, app) = limited(&options, Limits::default()).await;
    let before = census(&world).await;
    let server = Server::start(app).await;
    let mut stream = server.connect().await;
    let fields = [NDJSON, CHUNKED, ("Idempotency-Key", "k")];
    let request = head("POST", PRODUCTS, &world.api.connector, &fields);
    assert!(write(&mut stream, request.as_bytes()).await);
    assert!(write(&mut stream, &chunk(&rows(&world, 1_500))).await);
    // one chunk is stored, and the job is `receiving`
    world.until("SELECT count(*) FROM job_chunk", 1).await;
    drop(stream);
    // without upkeep, only the request itself can clean up
    until_as_before(&world, &before).await;
}
