//! Acceptance of syncs in their push form (`docs/reference/syncs.md#syncs`).

use std::fmt::Write as _;

use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use crate::product::{MIGRATIONS, World};
use crate::support::Reply;
use crate::support::strangers;

const PRODUCTS: &str = "/api/partner-integration/eshop/sync/products";
const STOCKS: &str = "/api/partner-integration/eshop/sync/product-stocks";

/// Sends bytes with a media type, as a connector.
async fn send(
    world: &World,
    path: &str,
    content_type: &str,
    body: impl Into<Body>,
    headers: &[(&str, &str)],
) -> Reply {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("authorization", format!("Bearer {}", world.api.connector))
        .header("content-type", content_type);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world.api.send(request.body(body.into()).unwrap()).await
}

async fn lines(world: &World, body: impl Into<Body>) -> Reply {
    send(world, PRODUCTS, "application/x-ndjson", body, &[]).await
}

/// A header line, and rows `A0`, `A1`, ….
fn stream(world: &World, rows: usize) -> String {
    let mut body = format!("{}\n", json!({"eshop": world.api.tenant.eshop}));
    for n in 0..rows {
        writeln!(body, "{}", json!({"productSku": format!("A{n}"), "name": "Anchor"})).unwrap();
    }
    body
}

async fn jobs(world: &World) -> i64 {
    world.count("SELECT count(*) FROM job").await
}

#[tokio::test]
async fn both_forms_answer_with_a_job_of_the_eshop() {
    let world = World::new(&strangers().await).await;
    let tenant = &world.api.tenant;
    let rows = [json!({"productSku": "A0", "name": "Anchor"}), json!({"productSku": 1})];
    let document = json!({"eshop": tenant.eshop, "inventoryId": "1", "products": rows});
    let stocks = json!({"eshop": tenant.eshop, "warehouseId": tenant.warehouse, "stocks": [{}, {}]});
    let stock_lines =
        format!("{}\r\n{{}}\n\n{{}}", json!({"eshop": tenant.eshop, "warehouseId": tenant.warehouse}));
    for (path, kind, content_type, body) in [
        (PRODUCTS, "product.sync", "application/json", document.to_string()),
        (PRODUCTS, "product.sync", "application/x-ndjson", stream(&world, 2)),
        (STOCKS, "stock.sync", "application/json; charset=utf-8", stocks.to_string()),
        (STOCKS, "stock.sync", "application/x-ndjson", stock_lines),
    ] {
        let reply = send(&world, path, content_type, body, &[]).await.expect(200);
        let job = reply.json();
        assert_eq!((&job["kind"], &job["state"]), (&json!(kind), &json!("queued")));
        assert_eq!(
            (&job["organisation"], &job["eshop"]),
            (&json!(tenant.organisation), &json!(tenant.eshop))
        );
        assert_eq!(job["progress"]["total"], 2);
        let location = format!("/api/job/{}", job["id"].as_str().unwrap());
        assert_eq!(reply.header("location"), Some(location.as_str()));
        assert_eq!(world.api.get(&world.api.user, &location).await.expect(200).json(), job);
    }
    let prefer = [("prefer", "respond-async")];
    let reply = send(&world, PRODUCTS, "application/x-ndjson", stream(&world, 1), &prefer).await.expect(202);
    assert_eq!(reply.header("preference-applied"), Some("respond-async"));
}

#[tokio::test]
async fn a_sync_without_rows_has_ended_already() {
    let world = World::new(&strangers().await).await;
    let document = json!({"eshop": world.api.tenant.eshop, "products": []}).to_string();
    for (content_type, body) in [("application/json", document), ("application/x-ndjson", stream(&world, 0))]
    {
        let job = send(&world, PRODUCTS, content_type, body, &[]).await.expect(200).json();
        assert_eq!((&job["state"], &job["progress"]["total"]), (&json!("succeeded"), &json!(0)));
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_document_that_breaks_a_rule_is_refused_with_the_path(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (stranger, _) = world.stranger().await;
    let (eshop, warehouse) = (world.api.tenant.eshop, world.api.tenant.warehouse);
    for (path, body, violation) in [
        (PRODUCTS, json!({"eshop": eshop}), "products required"),
        (PRODUCTS, json!({"eshop": eshop, "inventoryId": "1"}), "eshop no_integration"),
        (STOCKS, json!({"eshop": eshop, "warehouseId": "1", "direction": "out"}), "eshop no_integration"),
        (STOCKS, json!({"eshop": eshop, "warehouseId": "1", "direction": "up"}), "direction not_allowed"),
        (STOCKS, json!({"eshop": eshop}), "stocks required"),
        (PRODUCTS, json!({"eshop": eshop, "products": {}}), "products wrong_type"),
        (PRODUCTS, json!({"eshop": eshop, "products": null}), "products wrong_type"),
        (PRODUCTS, json!({"products": []}), "eshop required"),
        (PRODUCTS, json!({"eshop": "mine", "products": []}), "eshop invalid_id"),
        (PRODUCTS, json!({"eshop": Uuid::nil(), "products": []}), "eshop unknown_reference"),
        (PRODUCTS, json!({"eshop": stranger.eshop, "products": []}), "eshop unknown_reference"),
        (PRODUCTS, json!({"eshop": eshop, "inventoryId": 1, "products": []}), "inventoryId wrong_type"),
        (PRODUCTS, json!({"eshop": eshop, "stocks": [], "products": []}), "stocks unknown_field"),
        (STOCKS, json!({"eshop": eshop, "warehouseId": warehouse}), "eshop no_integration"),
        (STOCKS, json!({"eshop": eshop, "stocks": []}), "warehouseId required"),
        (STOCKS, json!({"eshop": eshop, "warehouseId": "W1", "stocks": []}), "warehouseId unknown_reference"),
        (
            STOCKS,
            json!({"eshop": eshop, "warehouseId": stranger.warehouse, "stocks": []}),
            "warehouseId unknown_reference",
        ),
    ] {
        let reply = send(&world, path, "application/json", body.to_string(), &[]).await.expect(400);
        assert_eq!(reply.violations(), [violation], "{body}");
    }
    world.execute("UPDATE warehouse SET default_wms_id = NULL").await;
    let body = json!({"eshop": eshop, "warehouseId": warehouse, "stocks": []}).to_string();
    let reply = send(&world, STOCKS, "application/json", body, &[]).await.expect(400);
    assert_eq!(reply.violations(), ["warehouseId no_wms"]);
    assert_eq!(jobs(&world).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_unreadable_document_is_a_client_error(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let nested = format!(r#"{{"eshop": {}{}, "products": []}}"#, "[".repeat(200), "]".repeat(200));
    for body in [
        b"".as_slice(),
        b"[",
        b"{\"eshop\": ",
        br#"{"eshop": "\ud800", "products": []}"#,
        br#"{"eshop": 1e999, "products": []}"#,
        b"{\"eshop\": \"\xff\", \"products\": []}",
        nested.as_bytes(),
    ] {
        let reply = send(&world, PRODUCTS, "application/json", body.to_vec(), &[]).await;
        assert_eq!(reply.status.as_u16(), 400, "{}: {}", String::from_utf8_lossy(body), reply.text);
        assert_eq!(reply.json()["code"], "malformed_body");
    }
    for content_type in ["text/tab-separated-values", "application/xml", "application/json-seq", ""] {
        let reply = send(&world, PRODUCTS, content_type, stream(&world, 1), &[]).await.expect(415);
        assert_eq!(reply.json()["code"], "unsupported_media_type");
    }
    assert_eq!(jobs(&world).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_row_is_at_most_a_mebibyte_in_both_forms(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let eshop = world.api.tenant.eshop;
    // the rest of the row counts, too
    let row = |bytes: usize| json!({"name": "x".repeat(bytes - r#"{"name":""}"#.len())});
    let both = |bytes: usize| {
        [
            ("application/json", json!({"eshop": eshop, "products": [{}, row(bytes)]}).to_string()),
            ("application/x-ndjson", format!("{}{{}}\n{}\n", stream(&world, 0), row(bytes))),
        ]
    };
    for (content_type, body) in both(1024 * 1024) {
        let job = send(&world, PRODUCTS, content_type, body, &[]).await.expect(200).json();
        assert_eq!(job["progress"]["total"], 2);
    }
    let refused = both(1024 * 1024 + 1);
    let reply = send(&world, PRODUCTS, refused[0].0, refused[0].1.clone(), &[]).await.expect(400);
    assert_eq!(reply.violations(), ["products[1] invalid_length"]);
    let reply = send(&world, PRODUCTS, refused[1].0, refused[1].1.clone(), &[]).await.expect(400);
    assert_eq!(reply.json()["detail"], "line 3 is longer than 1048576 bytes");
    assert_eq!(jobs(&world).await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_header_before_a_file_is_none_of_its_lines(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let eshop = world.api.tenant.eshop;
    let sent = async |line: Value, rows: &[u8]| {
        let header = json!({"eshop": eshop, "line": line}).to_string();
        lines(&world, [header.as_bytes(), b"\n", rows].concat()).await
    };
    for (line, detail) in [(0, "line 2 is not valid UTF-8"), (1, "line 3 is not valid UTF-8")] {
        let reply = sent(json!(line), b"{}\n{\"name\":\"caf\xe9\"}\n").await.expect(400);
        assert!(reply.json()["detail"].as_str().unwrap().starts_with(detail), "{reply:?}");
    }
    for (line, violation) in [(json!(-1), "line out_of_range"), (json!("0"), "line wrong_type")] {
        assert_eq!(sent(line, b"{}\n").await.expect(400).violations(), [violation]);
    }
    // a file of Windows: its mark stands behind the header
    sent(json!(0), "\u{feff}{\"productSku\":\"A0\"}\r\n\r\n{\"productSku\":\"A0\"}\r\n".as_bytes())
        .await
        .expect(200);
    assert_eq!(world.count("SELECT count(*) FROM job_chunk WHERE lines = '{0,1,1,3}'").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_stream_without_a_valid_header_is_refused(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (stranger, _) = world.stranger().await;
    for body in ["", "\n \r\n", "eshop\n", "{\"eshop\":\n", " \u{feff}{}\n"] {
        let reply = lines(&world, body).await.expect(400);
        assert_eq!(reply.json()["code"], "malformed_body", "{body:?}");
    }
    for (header, violation) in [
        (json!([]), " wrong_type"),
        (json!({}), "eshop required"),
        (json!({"eshop": Uuid::nil()}), "eshop unknown_reference"),
        (json!({"eshop": stranger.eshop}), "eshop unknown_reference"),
        (json!({"eshop": world.api.tenant.eshop, "products": []}), "products unknown_field"),
        (json!({"productSku": "A0"}), "eshop required|productSku unknown_field"),
    ] {
        let reply = lines(&world, format!("{header}\n{{}}\n")).await.expect(400);
        assert_eq!(reply.violations().join("|"), violation, "{header}");
    }
    assert_eq!(jobs(&world).await, 0);
}

#[tokio::test]
async fn the_refusal_of_a_stream_that_begins_with_a_row_explains_the_header() {
    let world = World::new(&strangers().await).await;
    let reply = lines(&world, "{\"productSku\":\"A0\",\"name\":\"Anchor\"}\n").await.expect(400).json();
    let detail = "eshop is required: the first line must be the header, such as {\"eshop\": …}, and 2 more";
    assert_eq!(reply["detail"], detail);
    assert_eq!(reply["violations"][2]["parameters"], json!({"{{ value }}": "A0"}));
    let wrong = lines(&world, "{\"eshop\":\"mine\"}\n").await.expect(400).json();
    assert_eq!(wrong["violations"][0]["parameters"], json!({"{{ value }}": "mine"}));
}

#[tokio::test]
async fn a_stream_of_rows_has_several_names_and_may_begin_with_a_byte_order_mark() {
    let world = World::new(&strangers().await).await;
    let marked = format!("\u{feff}{}", stream(&world, 2));
    for name in [
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "Application/X-JSONLines; charset=utf-8",
    ] {
        for body in [stream(&world, 2), marked.clone()] {
            let job = send(&world, PRODUCTS, name, body, &[]).await.expect(200).json();
            assert_eq!(job["progress"]["total"], 2, "{name}");
        }
    }
    for document in [
        json!({"eshop": world.api.tenant.eshop, "products": [{"productSku": "A0"}]}),
        json!([{"eshop": world.api.tenant.eshop, "inventoryId": "1"}]),
    ] {
        let [plain, marked] = ["", "\u{feff}"].map(|mark| format!("{mark}{document}"));
        let plain = send(&world, PRODUCTS, "application/json", plain, &[]).await;
        let marked = send(&world, PRODUCTS, "application/json", marked, &[]).await;
        assert_eq!(marked.status, plain.status, "{}", marked.text);
        assert_eq!(marked.json()["violations"], plain.json()["violations"]);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_chunk_knows_the_lines_of_its_rows_and_a_document_has_none(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let body = format!("\n{}\n\r\n  \n{{}}", stream(&world, 1_002));
    lines(&world, body).await.expect(200);
    let kept = "SELECT string_agg(lines::text, ' ' ORDER BY number) FROM job_chunk";
    let kept: String = sqlx::query_scalar(kept).fetch_one(&world.owner).await.unwrap();
    assert_eq!(kept, "{0,3} {0,1003,2,1008}");
    let document = json!({"eshop": world.api.tenant.eshop, "products": [{}]}).to_string();
    send(&world, PRODUCTS, "application/json", document, &[]).await.expect(200);
    assert_eq!(world.count("SELECT count(*) FROM job_chunk WHERE lines IS NULL").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_stream_that_breaks_off_leaves_no_job(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    // the header is line 1; a chunk of 1,000 rows is stored before the next one breaks
    for (rows, line) in [(15, 17), (1_500, 1_502)] {
        let mut body = stream(&world, rows).into_bytes();
        body.extend_from_slice(b"{\"productSku\": \"\xff\"}\n{}\n");
        let reply = lines(&world, body).await.expect(400);
        assert_eq!(reply.json()["code"], "malformed_body");
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.starts_with(&format!("line {line} is not valid UTF-8: it looks like ")), "{detail}");
    }
    let pieces = [Ok(stream(&world, 1_500)), Err("reset")];
    let reply = lines(&world, Body::from_stream(futures::stream::iter(pieces))).await.expect(400);
    assert_eq!(reply.json()["detail"], "the body ended early");
    assert_eq!(jobs(&world).await, 0);
    assert_eq!(world.count("SELECT count(*) FROM job_chunk").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_document_that_is_not_utf_8_is_refused_by_its_name(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let utf_16: Vec<u8> = json!({"eshop": world.api.tenant.eshop})
        .to_string()
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    for (body, says) in
        [(utf_16, "it looks like UTF-16; save"), (vec![0x1f, 0x8b, 8, 0], "Content-Encoding: gzip")]
    {
        let reply = send(&world, PRODUCTS, "application/json", body, &[]).await.expect(400);
        assert!(reply.json()["detail"].as_str().unwrap().contains(says), "{reply:?}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_repeated_stream_returns_the_same_job(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let once = async |key: &str, body: Vec<u8>| {
        send(&world, PRODUCTS, "application/x-ndjson", body, &[("idempotency-key", key)]).await
    };
    // a refused stream releases its key
    let mut broken = stream(&world, 1).into_bytes();
    broken.extend_from_slice(b"\xff\n");
    once("k", broken).await.expect(400);
    let body = stream(&world, 1_001).into_bytes();
    let first = once("k", body.clone()).await.expect(200);
    assert_eq!(first.header("idempotent-replayed"), None);
    let again = once("k", body).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json(), first.json());
    assert_eq!(again.header("location"), first.header("location"));
    for other in [stream(&world, 1_002), stream(&world, 1_000), stream(&world, 0)] {
        let reply = once("k", other.into_bytes()).await.expect(422);
        assert_eq!(reply.json()["code"], "idempotency_key_reused");
    }
    assert_eq!(jobs(&world).await, 1);
    // the same for a document
    let document = json!({"eshop": world.api.tenant.eshop, "products": [{}]}).to_string();
    let key = [("idempotency-key", "document")];
    let first = send(&world, PRODUCTS, "application/json", document.clone(), &key).await.expect(200);
    let again = send(&world, PRODUCTS, "application/json", document.clone(), &key).await.expect(200);
    assert_eq!((again.header("idempotent-replayed"), again.json()), (Some("true"), first.json()));
    send(&world, PRODUCTS, "application/json", format!("{document} "), &key).await.expect(422);
    assert_eq!(jobs(&world).await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_second_stream_with_the_key_of_one_being_received_is_refused_at_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (sender, receiver) = futures::channel::mpsc::unbounded::<Result<String, std::io::Error>>();
    sender.unbounded_send(Ok(stream(&world, 1))).unwrap();
    let key = [("idempotency-key", "k")];
    let first = send(&world, PRODUCTS, "application/x-ndjson", Body::from_stream(receiver), &key);
    let second = async {
        world.until("SELECT count(*) FROM job WHERE state = 'receiving'", 1).await;
        let reply = send(&world, PRODUCTS, "application/x-ndjson", stream(&world, 1), &key).await;
        drop(sender);
        reply
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(second.expect(409).json()["code"], "request_in_progress");
    assert_eq!(first.expect(200).json()["progress"]["total"], 1);
    assert_eq!(jobs(&world).await, 1);
}

#[tokio::test]
async fn a_sync_requires_permission_and_the_callers_own_eshop() {
    let world = World::new(&strangers().await).await;
    let bound = world.api.tenant.eshop_token(&world.api.services).await.unwrap();
    let second = world.eshop().await;
    let body = |eshop: Uuid| json!({"eshop": eshop, "products": []});
    let own = world.api.tenant.eshop;
    for (token, eshop, status) in [
        ("lsh_nonsense", own, 401),
        (&world.api.viewer, own, 403),
        (&world.api.user, second.into(), 200),
        (&world.api.connector, second.into(), 200),
        (&bound, own, 200),
        (&bound, second.into(), 400),
    ] {
        let reply = world.api.post(token, PRODUCTS, body(eshop.get())).await;
        assert_eq!(reply.status.as_u16(), status, "{}", reply.text);
    }
}
