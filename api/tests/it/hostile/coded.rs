//! Compressed bodies: equal to their decompressed contents, however they are split, and limited in their
//! cost.

use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use http::Request;
use longshore_http::limits::Limits;
use longshore_http::limits::Stall;
use longshore_kernel::unfold::{Coding, fold};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::socket::{Server, head};
use super::{MIGRATIONS, PRODUCTS, census, limited};
use crate::product::World;
use crate::support::Reply;

const NDJSON: &str = "application/x-ndjson";
const JSON: &str = "application/json";
const CODINGS: [(&str, Coding); 2] = [("gzip", Coding::Gzip), ("zstd", Coding::Zstd)];

/// Sends a body in pieces of this size, with an `Idempotency-Key` if given.
async fn send(
    world: &World,
    path: &str,
    media: &str,
    coding: &str,
    body: &[u8],
    size: usize,
    key: Option<&str>,
) -> Reply {
    let pieces: Vec<_> =
        body.chunks(size).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece))).collect();
    let mut request = Request::post(path)
        .header("authorization", format!("Bearer {}", world.api.user))
        .header("content-type", media)
        .header("content-encoding", coding);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    world.api.send(request.body(Body::from_stream(stream::iter(pieces))).unwrap()).await
}

/// The header line, and this many rows.
fn rows(world: &World, count: usize) -> Vec<u8> {
    let mut text = format!("{}\n", json!({"eshop": world.api.tenant.eshop}));
    for n in 0..count {
        writeln!(text, "{}", json!({"productSku": format!("A{n}"), "name": format!("Anchor {n}")})).unwrap();
    }
    text.into_bytes()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_compressed_body_equals_its_contents_however_it_is_split(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    for (n, (name, coding)) in CODINGS.into_iter().enumerate() {
        for size in [1, 1000] {
            let body = world.body(&format!("{n}-{size}")).to_string().into_bytes();
            send(&world, "/api/product", JSON, name, &fold(coding, &body).unwrap(), size, None)
                .await
                .expect(201);
        }
        let (one, other) = (rows(&world, 2_500), b"{\"productSku\":\"last\",\"name\":\"Last\"}".to_vec());
        let members = [fold(coding, &one).unwrap(), fold(coding, &other).unwrap()].concat();
        for size in [1, 7, 100_000] {
            let job = send(&world, PRODUCTS, NDJSON, name, &members, size, None).await.expect(200).json();
            assert_eq!(job["progress"]["total"], 2_501, "{name} by {size}");
        }
        let sync =
            json!({"eshop": world.api.tenant.eshop, "products": [{"productSku": "B", "name": "Buoy"}]});
        let sync = fold(coding, sync.to_string().as_bytes()).unwrap();
        send(&world, PRODUCTS, JSON, name, &sync, 10, None).await.expect(200);
        // an optional body that is absent
        send(&world, "/api/product/list", JSON, name, b"", 1, None).await.expect(200);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_request_repeated_in_another_coding_is_the_same_request(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let product = world.body("once").to_string().into_bytes();
    for (path, media, body, status) in
        [("/api/product", JSON, product, 201), (PRODUCTS, NDJSON, rows(&world, 3), 200)]
    {
        let first = send(&world, path, media, "identity", &body, 1000, Some("k")).await.expect(status);
        for (name, coding) in CODINGS {
            let folded = fold(coding, &body).unwrap();
            let again = send(&world, path, media, name, &folded, 9, Some("k")).await.expect(status);
            assert_eq!(again.header("idempotent-replayed"), Some("true"), "{path} {name}");
            assert_eq!(again.json()["id"], first.json()["id"]);
        }
        let another = fold(Coding::Gzip, &[body.as_slice(), b" "].concat()).unwrap();
        send(&world, path, media, "gzip", &another, 9, Some("k")).await.expect(422);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_decompression_bomb_is_refused_and_changes_no_table(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let before = census(&world).await;
    let spaces = vec![b' '; 16 * 1024 * 1024];
    let mut lines = rows(&world, 1_500);
    lines.resize(16 * 1024 * 1024, b'\n');
    let image = format!("/api/product/{}/image/upload", uuid::Uuid::nil());
    for (name, coding) in CODINGS {
        let twice = format!("it looks like {name}; send it compressed once");
        let (spaces, lines) = (fold(coding, &spaces).unwrap(), fold(coding, &lines).unwrap());
        let nested = fold(coding, &spaces).unwrap();
        for (path, media, bomb, status, says) in [
            ("/api/product", JSON, &spaces, 413, "too_large"),
            ("/api/product/list", JSON, &spaces, 413, "too_large"),
            (PRODUCTS, JSON, &spaces, 413, "more than 200 times its size"),
            (PRODUCTS, NDJSON, &lines, 413, "more than 200 times its size"),
            (PRODUCTS, NDJSON, &spaces, 413, "more than 200 times its size"),
            (
                image.as_str(),
                "multipart/form-data; boundary=lines",
                &spaces,
                413,
                "more than 200 times its size",
            ),
            // it is decompressed once
            (PRODUCTS, JSON, &nested, 400, &twice),
        ] {
            let reply = send(&world, path, media, name, bomb, 64 * 1024, Some("k")).await;
            assert_eq!(reply.status.as_u16(), status, "{path} {name}: {}", reply.text);
            assert!(reply.text.contains(says), "{path} {name}: {}", reply.text);
        }
        // a body that decompresses to nothing ends, too
        let nothing = fold(coding, b"").unwrap().repeat(200_000);
        let reply = send(&world, "/api/product", JSON, name, &nothing, 64 * 1024, None).await.expect(413);
        assert!(reply.text.contains("too_large"), "{}", reply.text);
    }
    // a frame with a window of 2 GiB
    let wide = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (31 - 10) << 3, 0x01, 0x00, 0x00];
    let reply = send(&world, PRODUCTS, NDJSON, "zstd", &wide, 9, None).await.expect(400);
    assert!(reply.text.contains("a window of at most 8 MiB"), "{}", reply.text);
    assert_eq!(census(&world).await, before);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_upload_that_is_cut_off_or_damaged_leaves_no_job(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let before = census(&world).await;
    for (name, coding) in CODINGS {
        let whole = fold(coding, &rows(&world, 3_000)).unwrap();
        let followed = [whole.as_slice(), b"garbage"].concat();
        let mut damaged = whole.clone();
        // damage in the checksum, which is optional with zstd, and in the head
        let place = if coding == Coding::Gzip { damaged.len() - 8 } else { 1 };
        damaged[place] ^= 1;
        for body in [&whole[..whole.len() - 1], &whole[..whole.len() / 2], &followed, &damaged] {
            let reply = send(&world, PRODUCTS, NDJSON, name, body, 500, Some("k")).await.expect(400);
            assert_eq!(reply.json()["code"], "malformed_body", "{name}: {}", reply.text);
        }
    }
    assert_eq!(census(&world).await, before);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_compressed_bytes_decide_whether_a_client_stalls(_: PgPoolOptions, options: PgConnectOptions) {
    let limits = Limits { stall: Stall(Duration::from_millis(500)), ..Limits::default() };
    let (world, app) = limited(&options, limits).await;
    let server = Server::start(app).await;
    let before = census(&world).await;
    let fields = [("Content-Type", NDJSON), ("Content-Encoding", "zstd"), ("Transfer-Encoding", "chunked")];
    let head = head("POST", PRODUCTS, &world.api.connector, &fields);
    // a few of its bytes decompress to more than the minimum of a stall
    let mut lines = rows(&world, 0);
    lines.resize(4 * 1024 * 1024, b'\n');
    let (status, problem) = server.drip(&head, &fold(Coding::Zstd, &lines).unwrap()).await;
    // as a stall or as a bomb, whichever comes first
    assert!(status == 400 || status == 413, "{status} {problem}");
    assert_eq!(census(&world).await, before);
}
