//! Bodies that are broken, extreme or misleading: each is refused with a clear answer, and no table changes.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, PRODUCTS, census};
use crate::product::{World, id};
use crate::support::Reply;

async fn send(world: &World, method: &str, path: &str, body: Vec<u8>) -> Reply {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {}", world.api.user))
        .header("content-type", "application/json");
    world.api.send(request.body(Body::from(body)).unwrap()).await
}

/// Sends a body with a media type and the encodings in its head.
async fn encoded(world: &World, path: &str, content_type: &str, codings: &[&str], body: Vec<u8>) -> Reply {
    let mut request = Request::builder()
        .method("POST")
        .uri(path)
        .header("authorization", format!("Bearer {}", world.api.user))
        .header("content-type", content_type);
    for coding in codings {
        request = request.header("content-encoding", *coding);
    }
    world.api.send(request.body(Body::from(body)).unwrap()).await
}

/// The body of a create with one member written as given.
fn with(world: &World, member: &str, text: &str) -> Vec<u8> {
    let mut body = world.body("new");
    body.as_object_mut().unwrap().remove(member);
    let body = body.to_string();
    format!("{},\"{member}\":{text}}}", &body[..body.len() - 1]).into_bytes()
}

/// The violations of a refusal, or its code if there are none.
fn violation(reply: &Reply) -> String {
    let violations = reply.violations();
    if violations.is_empty() {
        reply.json()["code"].as_str().unwrap().to_owned()
    } else {
        violations.join("|")
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn numbers_are_accepted_exactly_or_refused(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let before = census(&world).await;
    for (number, expected) in [
        ("10000001", "weight out_of_range"),
        ("-1", "weight out_of_range"),
        ("2147483648", "weight out_of_range"),
        ("9007199254740993", "weight out_of_range"),
        ("9223372036854775808", "weight out_of_range"),
        ("18446744073709551615", "weight out_of_range"),
        ("-9223372036854775809", "weight out_of_range"),
        ("18446744073709551616", "weight out_of_range"),
        ("1e19", "weight out_of_range"),
        ("1.5", "weight wrong_type"),
        ("1e-2", "weight wrong_type"),
        ("225.00000000000000000001", "weight wrong_type"),
        ("10000001.0", "weight out_of_range"),
        ("1e10", "weight out_of_range"),
        ("1e99999999999999999999", "malformed_body"),
        ("5e-324", "weight wrong_type"),
        ("1e400", "malformed_body"),
        ("-1e400", "malformed_body"),
        ("01", "malformed_body"),
        ("+1", "malformed_body"),
        (".5", "malformed_body"),
        ("0x10", "malformed_body"),
        ("NaN", "malformed_body"),
        ("Infinity", "malformed_body"),
    ] {
        let reply = send(&world, "POST", "/api/product", with(&world, "weight", number)).await;
        assert_eq!(reply.status.as_u16(), 400, "{number}: {}", reply.text);
        assert_eq!(violation(&reply), expected, "{number}");
    }
    for (number, expected) in
        [("-1", "limit out_of_range"), ("10001", "limit out_of_range"), ("1e400", "malformed_body")]
    {
        let body = format!("{{\"limit\":{number}}}").into_bytes();
        assert_eq!(violation(&send(&world, "POST", "/api/product/list", body).await.expect(400)), expected);
    }
    assert_eq!(census(&world).await, before);
    // the bounds themselves
    for (sku, number) in [("least", "0"), ("most", "10000000")] {
        let mut body: Value = serde_json::from_slice(&with(&world, "weight", number)).unwrap();
        body["productSku"] = json!(sku);
        let made = world.post(body).await.expect(201).json();
        assert_eq!(made["weight"].to_string(), number);
    }
    // a whole number is an integer in any notation, and is stored and shown as one
    let path = {
        let mut body: Value = serde_json::from_slice(&with(&world, "weight", "1")).unwrap();
        body["productSku"] = json!("written");
        format!("/api/product/{}", id(&world.post(body).await.expect(201).json()))
    };
    for (number, whole) in [
        ("225.0", "225"),
        ("2.26e2", "226"),
        ("1E3", "1000"),
        ("-0.0", "0"),
        ("1e7", "10000000"),
        ("50e-1", "5"),
    ] {
        let body = format!("{{\"weight\":{number}}}").into_bytes();
        let changed = send(&world, "PUT", &path, body).await.expect(200).json();
        assert_eq!(changed["weight"].to_string(), whole, "{number}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn names_are_counted_in_characters_not_bytes(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let before = census(&world).await;
    // two UTF-16 units and four UTF-8 bytes; and one byte
    for character in ["🫖", "a"] {
        for characters in [1, 256] {
            let name = json!(character.repeat(characters)).to_string();
            let reply = send(&world, "POST", "/api/product", with(&world, "name", &name)).await.expect(400);
            assert_eq!(violation(&reply), "name invalid_length", "{characters} of {character}");
        }
    }
    for (text, expected) in [
        (r#""\ud83e\udED6""#, "name invalid_length"),
        (r#""a\u0000b""#, "name invalid_character"),
        ("\"a\u{0}b\"", "malformed_body"),
        (r#""a\ud83eb""#, "malformed_body"),
        (r#""\udED6\ud83e""#, "malformed_body"),
        (r#""\x41\x42""#, "malformed_body"),
    ] {
        let reply = send(&world, "POST", "/api/product", with(&world, "name", text)).await.expect(400);
        assert_eq!(violation(&reply), expected, "{text}");
    }
    let mut latin = with(&world, "name", "\"caf?\"");
    let at = latin.iter().position(|byte| *byte == b'?').unwrap();
    latin[at] = 0xe9;
    assert_eq!(violation(&send(&world, "POST", "/api/product", latin).await.expect(400)), "malformed_body");
    assert_eq!(census(&world).await, before);
    for (n, characters) in [2, 255].into_iter().enumerate() {
        let name = "🫖".repeat(characters);
        let made = world.create(&format!("S{n}"), json!({"name": name})).await;
        assert_eq!(made["name"], json!(name));
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn values_nested_ten_thousand_deep_are_refused_everywhere(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let before = census(&world).await;
    let arrays = "[".repeat(10_000) + &"]".repeat(10_000);
    let objects = "{\"a\":".repeat(10_000) + "1" + &"}".repeat(10_000);
    for deep in [arrays, objects] {
        for (method, path) in [
            ("POST", "/api/product".to_owned()),
            ("PUT", format!("/api/product/{}", Uuid::nil())),
            ("PUT", "/api/product/activate".to_owned()),
            ("POST", "/api/product/list".to_owned()),
            ("POST", "/api/eshop-webhook".to_owned()),
            ("POST", format!("/api/job/{}/error/list", Uuid::nil())),
            ("PUT", "/api/webhook-delivery/redeliver".to_owned()),
        ] {
            let reply = send(&world, method, &path, deep.clone().into_bytes()).await;
            assert_eq!(reply.status.as_u16(), 400, "{method} {path}: {}", reply.text);
            assert_eq!(reply.json()["code"], "malformed_body", "{method} {path}");
        }
        let sync = format!("{{\"eshop\":{deep},\"products\":[]}}").into_bytes();
        assert_eq!(violation(&send(&world, "POST", PRODUCTS, sync).await.expect(400)), "malformed_body");
    }
    assert_eq!(census(&world).await, before);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_bulk_outside_its_bounds_changes_no_table(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let before = census(&world).await;
    let ids: Vec<Uuid> = (0..100_001).map(Uuid::from_u128).collect();
    for (body, status, expected) in [
        (json!(ids).to_string().into_bytes(), 400, " invalid_count"),
        (vec![b' '; 8 * 1024 * 1024 + 1], 413, "too_large"),
        (b"[\"00000000-0000-0000-0000-000000000000\",]".to_vec(), 400, "malformed_body"),
        (b"[\"00000000-0000-0000-0000-000000000000\"][]".to_vec(), 400, "malformed_body"),
        (b"[\"{00000000-0000-0000-0000-000000000000}\"]".to_vec(), 400, "[0] invalid_id"),
        (b"\xef\xbb\xbf[]".to_vec(), 400, " invalid_count"),
        (b"\xef\xbb\xbf\xef\xbb\xbf[]".to_vec(), 400, "malformed_body"),
    ] {
        for path in ["/api/product/activate", "/api/product/deactivate"] {
            let reply = send(&world, "PUT", path, body.clone()).await;
            assert_eq!((reply.status.as_u16(), violation(&reply).as_str()), (status, expected));
        }
    }
    assert_eq!(census(&world).await, before);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_body_with_an_unsupported_encoding_is_not_read_as_its_contents(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    const LIST: &str = "/api/product/list";
    let world = World::new(&options).await;
    let before = census(&world).await;
    let rows = format!("{}\n", json!({"eshop": world.api.tenant.eshop})).into_bytes();
    let image = format!("/api/product/{}/image/upload", Uuid::nil());
    for (path, content_type, body) in [
        ("/api/product", "application/json", world.body("new").to_string().into_bytes()),
        (LIST, "application/json", b"{}".to_vec()),
        (LIST, "application/json", b"\x1f\x8b\x08\0".to_vec()),
        (PRODUCTS, "application/x-ndjson", rows),
        (PRODUCTS, "application/json", b"{}".to_vec()),
        (image.as_str(), "multipart/form-data; boundary=lines", b"--lines--\r\n".to_vec()),
    ] {
        for codings in [&["br"][..], &["deflate"], &["gzip, gzip"], &["gzip", "zstd"], &["identity, x"]] {
            let reply = encoded(&world, path, content_type, codings, body.clone()).await.expect(415);
            assert_eq!(violation(&reply), "unsupported_content_encoding", "{path} {codings:?}");
            assert_eq!(reply.header("accept-encoding"), Some("gzip, zstd"), "{path} {codings:?}");
        }
        // the body is in none of the declared encodings
        for codings in [&["gzip"][..], &["identity, ZSTD"]] {
            let reply = encoded(&world, path, content_type, codings, body.clone()).await.expect(400);
            assert_eq!(violation(&reply), "malformed_body", "{path} {codings:?}");
            assert!(reply.text.contains("cannot be decompressed"), "{path} {codings:?}: {}", reply.text);
        }
    }
    // a refused media type has nothing to do with encodings
    let reply = encoded(&world, LIST, "text/plain", &[], b"{}".to_vec()).await.expect(415);
    assert_eq!(
        (violation(&reply).as_str(), reply.header("accept-encoding")),
        ("unsupported_media_type", None)
    );
    for codings in [&["identity"][..], &["Identity, identity"], &[""]] {
        encoded(&world, LIST, "application/json", codings, b"{}".to_vec()).await.expect(200);
    }
    assert_eq!(census(&world).await, before);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_repeated_key_is_refused_at_any_position(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let before = census(&world).await;
    let eshop = world.api.tenant.eshop;
    let product = with(&world, "name", r#""Buoy","name":"Buoy""#);
    let escaped = with(&world, "name", r#""Buoy","\u006eame":"Mug""#);
    let child = with(&world, "childrenProducts", r#"[{},{"quantity":1,"quantity":2}]"#);
    let list = br#"{"criteria":{"name":{"eq":"a","eq":"b"}}}"#.to_vec();
    let sync = |text: &str| text.replace("ESHOP", &eshop.to_string()).into_bytes();
    for (path, body, named) in [
        ("/api/product", product, "name"),
        ("/api/product", escaped, "name"),
        ("/api/product", child, "childrenProducts[1].quantity"),
        ("/api/product/list", list, "criteria.name.eq"),
        (PRODUCTS, sync(r#"{"eshop":"ESHOP","eshop":"ESHOP","products":[]}"#), "eshop"),
        (PRODUCTS, sync(r#"{"eshop":"ESHOP","products":[],"products":[{}]}"#), "products"),
        (PRODUCTS, sync(r#"{"eshop":{"a":0,"a":0},"products":[]}"#), "eshop.a"),
        (PRODUCTS, sync(r#"[{"eshop":"ESHOP","inventoryId":"1","inventoryId":"2"}]"#), "[0].inventoryId"),
    ] {
        let reply = send(&world, "POST", path, body).await.expect(400);
        assert_eq!(violation(&reply), format!("{named} repeated_key"), "{path}");
    }
    let lines = sync("{\"eshop\":\"ESHOP\",\"eshop\":\"ESHOP\"}\n{}\n");
    let reply = encoded(&world, PRODUCTS, "application/x-ndjson", &[], lines).await.expect(400);
    assert_eq!(violation(&reply), "eshop repeated_key");
    assert_eq!(census(&world).await, before);
}
