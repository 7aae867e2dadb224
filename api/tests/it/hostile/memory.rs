//! Bodies that fill the memory: the share of a caller bounds what arrives in any form, and what becomes of it.

use std::convert::Infallible;

use axum::body::Body;
use futures::{StreamExt as _, stream};
use http::Request;
use longshore_http::limits::Limits;
use longshore_kernel::share::Ledger;
use longshore_kernel::unfold::{Coding, fold};
use longshore_serve::Peer;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, PRODUCTS, limited};
use crate::support::{Api, Reply};

/// What a body takes at least.
const STEP: u64 = 16 * 1024;

fn with_memory(bytes: u64) -> Limits {
    Limits { bodies: Ledger::new("memory for request bodies", bytes, 1), ..Limits::default() }
}

/// A body that begins, and neither goes on nor ends.
fn endless() -> Body {
    Body::from_stream(stream::iter([Ok::<_, Infallible>("{")]).chain(stream::pending()))
}

fn is_share_used(reply: &Reply) {
    assert_eq!(reply.json()["code"], "share_used");
    assert!(reply.text.contains("memory for request bodies"), "{}", reply.text);
    assert_eq!(reply.header("retry-after"), Some("1"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_file_in_a_form_counts_while_it_arrives(_: PgPoolOptions, options: PgConnectOptions) {
    // half of it for one organisation: more than the state of zstd
    let (world, app) = limited(&options, with_memory(2 * 1024 * 1024)).await;
    let api = &world.api;
    let image = format!("/api/product/{}/image/upload", world.add("A", json!({})).await);
    let invoice = format!("/api/expedition/{}/invoice", Uuid::nil());
    // a field that is not kept counts, too
    for (path, name) in [(&image, "image"), (&image, "file"), (&image, "note"), (&invoice, "invoice")] {
        let form = |bytes: usize| {
            let head = format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
            [head.as_bytes(), &vec![b'x'; bytes], b"\r\n--x--\r\n"].concat()
        };
        for coding in [None, Some(("gzip", Coding::Gzip)), Some(("zstd", Coding::Zstd))] {
            let send = |bytes: usize| {
                let mut request = Request::post(path)
                    .header("authorization", format!("Bearer {}", api.user))
                    .header("content-type", "multipart/form-data; boundary=x");
                let mut body = form(bytes);
                if let Some((coding, by)) = coding {
                    request = request.header("content-encoding", coding);
                    body = fold(by, &body).unwrap();
                }
                let pieces: Vec<_> = body.chunks(9_000).map(|p| Ok::<_, Infallible>(p.to_vec())).collect();
                api.send(request.body(Body::from_stream(stream::iter(pieces))).unwrap())
            };
            is_share_used(&send(1_100 * 1024).await.expect(429));
            let small = send(50 * 1024).await;
            assert_ne!(small.status, 429, "{path} {name} {coding:?}: {}", small.text);
            assert_eq!(app.limits.bodies.used(), 0);
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_values_of_a_login_count_before_they_are_parsed(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, app) = limited(&options, with_memory(512 * 1024)).await;
    let values = vec![r#"{"":0}"#; 1_500].join(",");
    for path in ["/api/login/admin", "/api/login/user", "/api/refresh-token"] {
        let body = format!("{{\"login\":[{values}],\"password\":\"x\"}}");
        let request = Request::post(path).body(Body::from(body)).unwrap();
        is_share_used(&world.api.send(request).await.expect(429));
        assert_eq!(app.limits.bodies.used(), 0);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_values_of_the_header_line_of_an_upload_are_bounded(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, _) = limited(&options, Limits::default()).await;
    let header = format!("{{\"eshop\":[{}]}}\n{{}}\n", vec![r#"{"":0}"#; 60_000].join(","));
    let request = Request::post(PRODUCTS)
        .header("authorization", format!("Bearer {}", world.api.connector))
        .header("content-type", "application/x-ndjson");
    let reply = world.api.send(request.body(Body::from(header)).unwrap()).await.expect(413);
    assert_eq!(reply.json()["code"], "too_large");
}

/// A login from an address.
async fn login(api: &Api, address: &str, body: Body) -> Reply {
    let mut request = Request::post("/api/login/user").body(body).unwrap();
    request.extensions_mut().insert(Peer(address.parse().unwrap()));
    api.send(request).await
}

/// A form of the console, from a page of it.
async fn form(api: &Api, address: &str, token: &str, body: Body) -> Reply {
    let mut request = Request::post("/console/token/new")
        .header("cookie", format!("longshore_console={token}"))
        .header("sec-fetch-site", "same-origin")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body)
        .unwrap();
    request.extensions_mut().insert(Peer(address.parse().unwrap()));
    api.send(request).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn logins_that_never_end_leave_memory_to_other_addresses_and_to_those_with_a_token(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, app) = limited(&options, with_memory(9 * STEP)).await;
    let api = &world.api;
    let mut endlessly = Vec::new();
    // of the half for all without a token, an address alone has two thirds
    for taken in 1..=3 {
        let mut one = Box::pin(login(api, "192.0.2.1", endless()));
        while app.limits.bodies.used() < taken * STEP {
            assert!(futures::poll!(&mut one).is_pending());
            tokio::task::yield_now().await;
        }
        endlessly.push(one);
    }
    let nobody = || Body::from(json!({"login": "nobody", "password": "a wrong horse"}).to_string());
    is_share_used(&login(api, "192.0.2.1", nobody()).await.expect(429));
    login(api, "192.0.2.2", nobody()).await.expect(401);
    // who has a token has another share: the form is read, and refused because it has no token of its own
    form(api, "192.0.2.1", &api.superadmin, Body::from("name=x")).await.expect(403);
    // who has none sends a form in vain
    let lost = form(api, "192.0.2.3", "lsh_nonsense", endless()).await.expect(303);
    assert!(lost.header("location").unwrap().starts_with("/console/login"));
    drop(endlessly);
    assert_eq!(app.limits.bodies.used(), 0);
}
