//! HTTP: codings of answers, conditional requests, `OPTIONS`, pages of other origins.

use std::collections::BTreeSet;
use std::io::Read as _;

use axum::body::Body;
use flate2::read::MultiGzDecoder;
use futures::StreamExt as _;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use longshore_api::openapi::routes;
use longshore_http::app::{App, Surroundings};
use longshore_http::limits::Limits;
use longshore_kernel::origin::origins;
use longshore_testkit::services;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tower::ServiceExt as _;

use crate::console::Browser;
use crate::list::fixture::{break_off, store_many};
use crate::product::{MIGRATIONS, World};
use crate::support::strangers;
use crate::support::{Api, Reply};

const GZIP: (&str, &str) = ("accept-encoding", "gzip");

/// The decompressed answer.
fn unfolded(reply: &Reply) -> Vec<u8> {
    let mut bytes = Vec::new();
    match reply.header("content-encoding") {
        None => bytes.clone_from(&reply.bytes),
        Some("gzip") => {
            MultiGzDecoder::new(reply.bytes.as_slice()).read_to_end(&mut bytes).unwrap();
        }
        Some("zstd") => bytes = zstd::stream::decode_all(reply.bytes.as_slice()).unwrap(),
        Some(other) => panic!("{other}"),
    }
    bytes
}

async fn list(api: &Api, accept: &str) -> Reply {
    let body = json!({"limit": 300});
    let accept = [("accept-encoding", accept)];
    api.call_with(&api.user, Method::POST, "/api/product/list", body, &accept).await.expect(200)
}

#[tokio::test]
async fn a_list_is_sent_in_the_coding_that_the_client_prefers() {
    let api = Api::new(&strangers().await).await;
    store_many(&api, 300).await;
    let plain = list(&api, "identity").await;
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), (None, Some("accept-encoding")));
    for (accept, coding) in [
        ("gzip", Some("gzip")),
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("zstd;q=0.5, gzip", Some("gzip")),
        ("br", None),
        // if the service supports none of the codings, it answers uncompressed rather than refusing the
        // executed request
        ("identity;q=0", None),
        ("*;q=0", None),
    ] {
        let reply = list(&api, accept).await;
        assert_eq!(reply.header("content-encoding"), coding, "{accept}");
        assert_eq!(reply.header("vary"), Some("accept-encoding"), "{accept}");
        assert!(unfolded(&reply) == plain.bytes, "{accept}");
        assert!(
            coding.is_none() || reply.bytes.len() * 5 < plain.bytes.len(),
            "{accept}: {}",
            reply.bytes.len()
        );
    }
}

#[tokio::test]
async fn the_documentation_is_found_with_a_slash_at_its_end() {
    let api = Api::new(&strangers().await).await;
    let reply = api.get("", "/docs/").await.expect(308);
    assert_eq!(reply.header("location"), Some("/docs"));
    assert!(api.get("", "/docs").await.expect(200).text.contains("<h1>"));
}

#[tokio::test]
async fn small_or_compressed_answers_and_those_with_a_form_token_are_not_compressed() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let id = world.add("A", json!({})).await;
    let product =
        api.call_with(&api.user, Method::GET, &format!("/api/product/{id}"), Value::Null, &[GZIP]).await;
    assert_eq!(product.expect(200).header("content-encoding"), None);
    let page = |path: &str| {
        Request::get(path)
            .header("host", "longshore.test")
            .header("cookie", format!("longshore_console={}", api.superadmin))
            .header("accept-encoding", "gzip, zstd")
            .body(Body::empty())
            .unwrap()
    };
    for path in ["/console", "/console/job", "/console/nothing"] {
        let reply = api.send(page(path)).await;
        assert!(reply.text.contains("form_token") || reply.text.contains("hidden"), "{path}: {}", reply.text);
        assert_eq!((reply.header("content-encoding"), reply.header("vary")), (None, None), "{path}");
    }
    let overview = Browser::new(api, &api.superadmin).open("/console").await.expect(200);
    let style = overview.text.split("href=\"").find(|part| part.contains("console.css")).unwrap();
    let style = api.send(page(style.split('"').next().unwrap())).await.expect(200);
    assert_eq!(style.header("content-encoding"), Some("zstd"));
    let live = api.router.clone().oneshot(page("/console/live")).await.unwrap();
    assert_eq!(live.headers().get("content-encoding"), None);
    assert_eq!(live.headers()["content-type"], "text/event-stream");
    // a refusal is compressed like any answer
    let many: Vec<_> = (0..100).map(|_| json!({})).collect();
    let body = json!({"organisation": api.tenant.organisation, "items": many});
    let refused =
        api.call_with(&api.user, Method::POST, "/api/stock-advice", body, &[GZIP]).await.expect(400);
    assert_eq!(refused.header("content-encoding"), Some("gzip"));
    let problem: Value = serde_json::from_slice(&unfolded(&refused)).unwrap();
    assert_eq!(problem["code"], "invalid_data");
}

#[tokio::test]
async fn head_answers_like_get_without_the_content() {
    let api = Api::new(&strangers().await).await;
    for accept in ["identity", "gzip"] {
        let accept = [("accept-encoding", accept)];
        let get = api.call_with("", Method::GET, "/openapi.json", Value::Null, &accept).await.expect(200);
        let head = api.call_with("", Method::HEAD, "/openapi.json", Value::Null, &accept).await.expect(200);
        assert!(head.bytes.is_empty());
        for name in ["content-type", "content-length", "content-encoding", "etag", "vary", "cache-control"] {
            assert_eq!(head.header(name), get.header(name), "{name}");
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_streamed_list_is_sent_piece_by_piece_and_one_that_breaks_off_is_incomplete(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    store_many(&api, 5_000).await;
    let ask = |accept: &'static str| {
        Request::post("/api/product/list")
            .header("host", "longshore.test")
            .header("authorization", format!("Bearer {}", api.user))
            .header("accept-encoding", accept)
            .body(Body::empty())
            .unwrap()
    };
    for accept in ["gzip", "zstd"] {
        let whole = api.send(ask(accept)).await.expect(200);
        assert_eq!(whole.header("content-encoding"), Some(accept));
        let answer: Value = serde_json::from_slice(&unfolded(&whole)).unwrap();
        assert_eq!(answer["paging"]["total"], 5_000);

        let response = api.router.clone().oneshot(ask(accept)).await.unwrap();
        let mut pieces = response.into_body().into_data_stream();
        let first = pieces.next().await.unwrap().unwrap();
        assert!(!first.is_empty());
        break_off(options.clone()).await;
        let mut got = first.to_vec();
        let mut complete = true;
        while let Some(piece) = pieces.next().await {
            let Ok(piece) = piece else {
                complete = false;
                break;
            };
            got.extend_from_slice(&piece);
        }
        assert!(!complete && got.len() < whole.bytes.len(), "{} of {}", got.len(), whole.bytes.len());
    }
}

#[tokio::test]
async fn a_piece_of_a_stream_reaches_the_client_before_the_next_one_is_there() {
    use futures::channel::mpsc;
    use http::header::CONTENT_TYPE;
    use longshore_http::middleware::compress;

    drop(strangers().await);
    let (sender, receiver) = mpsc::unbounded::<Result<String, std::io::Error>>();
    let receiver = std::sync::Arc::new(std::sync::Mutex::new(Some(receiver)));
    let service = axum::Router::new()
        .route(
            "/",
            axum::routing::get(move || {
                let receiver = receiver.lock().unwrap().take().unwrap();
                async { ([(CONTENT_TYPE, "application/json")], Body::from_stream(receiver)) }
            }),
        )
        .layer(axum::middleware::from_fn(compress::layer));
    let request = Request::get("/").header("accept-encoding", "gzip").body(Body::empty()).unwrap();
    sender.unbounded_send(Ok("first,".to_owned())).unwrap();
    let mut body = service.oneshot(request).await.unwrap().into_body();
    let mut decoder = flate2::write::GzDecoder::new(Vec::new());
    // the second piece is sent only when the first one can be read
    while !decoder.get_ref().ends_with(b"first,") {
        let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
        std::io::Write::write_all(&mut decoder, &piece).unwrap();
        std::io::Write::flush(&mut decoder).unwrap();
    }
    sender.unbounded_send(Ok("second".to_owned())).unwrap();
    drop(sender);
    let rest = body.collect().await.unwrap().to_bytes();
    std::io::Write::write_all(&mut decoder, &rest).unwrap();
    assert_eq!(decoder.finish().unwrap(), b"first,second");
}

#[tokio::test]
async fn a_version_that_the_caller_already_has_is_not_sent_again() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let id = world.add("A", json!({})).await;
    // large enough to be compressed
    let long = world
        .add("LONG", json!({"referenceNumbers": (0..40).map(|n| format!("{n:0>100}")).collect::<Vec<_>>()}))
        .await;
    let supplier = json!({"organisation": api.tenant.organisation, "name": "Clay Works"});
    let supplier = api.post(&api.user, "/api/supplier", supplier).await.expect(201).json();
    let paths = [
        format!("/api/product/{id}"),
        format!("/api/supplier/{}", supplier["id"].as_str().unwrap()),
        format!("/api/organisation/{}", api.tenant.organisation),
        format!("/api/eshop/{}", api.tenant.eshop),
        format!("/api/warehouse/{}", api.tenant.warehouse),
        format!("/api/product/{long}"),
        "/openapi.json".to_owned(),
        "/docs/docs.css".to_owned(),
        "/console/asset/console.css".to_owned(),
    ];
    for path in &paths {
        for (method, accept) in [(Method::GET, "identity"), (Method::GET, "gzip"), (Method::HEAD, "zstd")] {
            let ask = async |tag: &str| {
                let headers = [("if-none-match", tag), ("accept-encoding", accept)];
                api.call_with(&api.user, method.clone(), path, Value::Null, &headers).await
            };
            let whole = ask("\"another\"").await.expect(200);
            let tag = whole.header("etag").unwrap_or_else(|| panic!("{path}")).to_owned();
            // other codings are other bytes of the same version
            assert_eq!(tag.starts_with("W/"), whole.header("content-encoding").is_some(), "{path} {accept}");
            let strong = tag.trim_start_matches("W/");
            let weak = format!("W/{strong}");
            for known in
                [strong.to_owned(), weak, format!("\"x\", {tag}"), format!("W/\"x\",{tag}"), "*".to_owned()]
            {
                let reply = ask(&known).await.expect(304);
                assert!(reply.bytes.is_empty());
                assert_eq!(reply.header("etag"), Some(tag.as_str()), "{method} {path} {accept}");
                assert_eq!(reply.header("cache-control"), whole.header("cache-control"), "{path}");
                assert_eq!(reply.header("vary"), Some("accept-encoding"), "{path}");
                assert_eq!((reply.header("content-type"), reply.header("content-encoding")), (None, None));
            }
        }
    }
    // the tag of a compressed answer names the version of the record
    let tagged = api.call_with(&api.user, Method::GET, &paths[0], Value::Null, &[GZIP]).await.expect(200);
    let tag = tagged.header("etag").unwrap().to_owned();
    world.put_if(&id, json!({"name": "Buoy"}), &tag).await.expect(200);
    let known = [("if-none-match", tag.as_str())];
    api.call_with(&api.user, Method::GET, &paths[0], Value::Null, &known).await.expect(200);
    // a new supplier is a new version of its organisation
    let before = api.get(&api.user, &paths[2]).await.expect(200);
    let more = json!({"organisation": api.tenant.organisation, "name": "Iron Works"});
    api.post(&api.user, "/api/supplier", more).await.expect(201);
    let known = [("if-none-match", before.header("etag").unwrap())];
    api.call_with(&api.user, Method::GET, &paths[2], Value::Null, &known).await.expect(200);
    // a caller that may not see it does not learn that it is unchanged
    let known = [("if-none-match", "*")];
    api.call_with("", Method::GET, &paths[0], Value::Null, &known).await.expect(401);
    let (_, theirs) = world.stranger().await;
    let path = format!("/api/product/{theirs}");
    api.call_with(&api.user, Method::GET, &path, Value::Null, &known).await.expect(404);
}

#[tokio::test]
async fn records_with_observed_values_are_sent_each_time() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let webhook = world.webhook(api.tenant.eshop.get(), "*").await;
    let prefer = [("prefer", "respond-async")];
    let ids = json!([uuid::Uuid::max()]);
    let job =
        api.call_with(&api.user, Method::PUT, "/api/product/activate", ids, &prefer).await.expect(202).json();
    let tokens =
        api.post(&api.superadmin, "/api/access-token/list", json!({"limit": 1})).await.expect(200).json();
    for path in [
        format!("/api/eshop-webhook/{webhook}"),
        format!("/api/job/{}", job["id"].as_str().unwrap()),
        format!("/api/access-token/{}", tokens["results"][0]["id"].as_str().unwrap()),
        "/api/queue".to_owned(),
    ] {
        let reply = api.get(&api.superadmin, &path).await.expect(200);
        let tag = reply.header("etag").unwrap_or("*").to_owned();
        for known in [tag.as_str(), "*"] {
            let known = [("if-none-match", known)];
            api.call_with(&api.superadmin, Method::GET, &path, Value::Null, &known).await.expect(200);
        }
    }
}

#[tokio::test]
async fn options_returns_the_methods_of_a_path_without_a_token() {
    let api = Api::new(&strangers().await).await;
    let ask = async |path: &str| {
        api.send(Request::builder().method("OPTIONS").uri(path).body(Body::empty()).unwrap()).await
    };
    for (path, allowed) in [
        ("/api/product/list", "POST"),
        ("/api/product/1", "GET,HEAD,PUT"),
        ("/openapi.json", "GET,HEAD"),
        ("/console/login", "GET,HEAD,POST"),
        ("*", "GET, HEAD, POST, PUT, PATCH, DELETE"),
    ] {
        let reply = ask(path).await.expect(204);
        assert_eq!(reply.header("allow"), Some(allowed), "{path}");
        assert!(reply.bytes.is_empty() && reply.header("access-control-allow-origin").is_none());
    }
    for path in ["/api/nothing", "/nothing"] {
        assert_eq!(ask(path).await.expect(404).json()["code"], "no_such_path");
    }
}

/// The service, open to pages of these origins.
async fn open_to(options: &PgConnectOptions, list: &str) -> Api {
    let mut api = Api::new(options).await;
    let surroundings = Surroundings { origins: origins(list).unwrap(), ..Surroundings::default() };
    let services = services::for_test(options).unwrap();
    api.serve(App::among(surroundings, services, Limits::default()));
    api
}

/// A preflight request of a browser.
async fn preflight(api: &Api, origin: &str, path: &str) -> Reply {
    let request = Request::builder()
        .method("OPTIONS")
        .uri(path)
        .header("origin", origin)
        .header("access-control-request-method", "PUT")
        .header("access-control-request-headers", "authorization,content-type,if-match");
    api.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_may_call() {
    const OURS: &str = "https://app.example";
    const ALLOWED: &str = "access-control-allow-origin";
    let api = open_to(&strangers().await, "https://app.example,http://localhost:3000").await;
    let asked = preflight(&api, OURS, "/api/product/list").await.expect(200);
    assert_eq!(asked.header(ALLOWED), Some(OURS));
    let methods: BTreeSet<_> = asked.header("access-control-allow-methods").unwrap().split(',').collect();
    let every = routes().iter().map(|route| route.method.as_str()).chain(["HEAD"]);
    assert_eq!(methods, every.collect::<BTreeSet<_>>());
    for (name, contains) in [
        ("access-control-allow-headers", "authorization"),
        ("access-control-allow-headers", "idempotency-key"),
        ("access-control-max-age", "7200"),
        ("vary", "origin"),
    ] {
        assert!(
            asked.header(name).is_some_and(|value| value.contains(contains)),
            "{name}: {:?}",
            asked.headers
        );
    }
    assert_eq!(asked.header("access-control-allow-credentials"), None);

    let from = [("origin", OURS)];
    let reply = api
        .call_with(&api.user, Method::POST, "/api/product/list", json!({"limit": 1}), &from)
        .await
        .expect(200);
    assert_eq!(reply.header(ALLOWED), Some(OURS));
    let exposed = reply.header("access-control-expose-headers").unwrap();
    for name in ["etag", "location", "retry-after", "x-request-id", "ratelimit", "idempotent-replayed"] {
        assert!(exposed.contains(name), "{name}: {exposed}");
    }
    // a refusal can be read, too
    for (token, path, status) in [("", "/api/product/list", 401), (&api.user, "/api/nothing", 404)] {
        let reply = api.call_with(token, Method::POST, path, Value::Null, &from).await.expect(status);
        assert_eq!(reply.header(ALLOWED), Some(OURS), "{path}");
    }
    // pages of other origins may not call
    for other in ["https://evil.example", "https://app.example.evil.example", "null"] {
        assert_eq!(preflight(&api, other, "/api/product/list").await.header(ALLOWED), None, "{other}");
        let from = [("origin", other)];
        let reply =
            api.call_with(&api.user, Method::POST, "/api/product/list", json!({"limit": 1}), &from).await;
        assert_eq!(reply.header(ALLOWED), None, "{other}");
    }
    // and no page may call the console
    for path in ["/console", "/console/login", "/console/job"] {
        assert_eq!(preflight(&api, OURS, path).await.header(ALLOWED), None, "{path}");
        let reply = api.call_with("", Method::GET, path, Value::Null, &from).await;
        assert_eq!(reply.header(ALLOWED), None, "{path}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn pages_of_other_origins_may_not_call_by_default(_: PgPoolOptions, options: PgConnectOptions) {
    const ALLOWED: &str = "access-control-allow-origin";
    let closed = Api::new(&options).await;
    assert_eq!(
        preflight(&closed, "https://app.example", "/api/product/list").await.expect(204).header(ALLOWED),
        None
    );
    let from = [("origin", "https://app.example")];
    let reply = closed.call_with("", Method::GET, "/openapi.json", Value::Null, &from).await.expect(200);
    assert_eq!(reply.header(ALLOWED), None);
    let open = open_to(&options, "*").await;
    assert_eq!(
        preflight(&open, "https://any.example", "/api/product/list").await.expect(200).header(ALLOWED),
        Some("*")
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn answers_of_the_api_are_not_cached(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let id = world.add("A", json!({})).await;
    let answers = [
        (api.post(&api.user, "/api/product/list", Value::Null).await.expect(200), "no-store"),
        (api.post("", "/api/login/admin", json!({})).await.expect(400), "no-store"),
        (api.get("", &format!("/api/product/{id}")).await.expect(401), "no-store"),
        // it may be cached, and revalidated
        (api.get(&api.user, &format!("/api/product/{id}")).await.expect(200), "private, no-cache"),
    ];
    for (reply, kept) in &answers {
        assert_eq!(reply.header("cache-control"), Some(*kept), "{}", reply.text);
    }
}

#[tokio::test]
async fn browsers_do_not_guess_the_type_of_any_answer() {
    let api = open_to(&strangers().await, "https://app.example").await;
    let mut answers = vec![
        preflight(&api, "https://app.example", "/api/product/list").await.expect(200),
        api.call_with("", Method::OPTIONS, "/api/product/list", Value::Null, &[]).await.expect(204),
        api.call_with("", Method::PATCH, "/metrics", Value::Null, &[]).await.expect(405),
        api.post(&api.user, "/api/product/list", Value::Null).await.expect(200),
        api.post("", "/api/product/list", Value::Null).await.expect(401),
    ];
    for path in [
        "/problems/gone",
        "/openapi.json",
        "/metrics",
        "/health/live",
        "/docs",
        "/docs/docs.css",
        "/console",
        "/nothing",
        "/console/asset/console.css",
    ] {
        answers.push(api.get("", path).await);
    }
    for reply in answers {
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{}", reply.text);
    }
}

#[tokio::test]
async fn a_refusal_before_the_body_was_read_closes_the_connection() {
    let api = Api::new(&strangers().await).await;
    let supplier = json!({"organisation": api.tenant.organisation, "name": "Rope & Co"});
    let refused = api.post(&api.viewer, "/api/supplier", supplier.clone()).await.expect(403);
    assert_eq!(refused.header("connection"), Some("close"));
    // the connection stays open if the body was read, or there was none
    let refused = api.post(&api.user, "/api/supplier", json!({})).await.expect(400);
    assert_eq!(refused.header("connection"), None);
    let refused = api.get(&api.connector, "/api/queue").await.expect(403);
    assert_eq!(refused.header("connection"), None);
    assert_eq!(api.post(&api.user, "/api/supplier", supplier).await.expect(201).header("connection"), None);
}

#[tokio::test]
async fn a_process_that_stops_is_not_ready_but_still_serves() {
    let services = services::for_test(&strangers().await).unwrap();
    let app = App::new(services.clone());
    let mut api = Api::over(services).await;
    api.serve(app.clone());
    api.get("", "/health/ready").await.expect(200);
    app.stopping.cancel();
    let ready = api.get("", "/health/ready").await.expect(503).json();
    assert_eq!(ready, json!({"status": "stopping"}));
    api.get("", "/health/live").await.expect(200);
    api.post(&api.user, "/api/product/list", Value::Null).await.expect(200);
}
