//! Streams: those that an account may have open, and uploads line by line, which are streams by every name.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use futures::channel::mpsc;
use futures::future::join_all;
use futures::stream;
use http::{Method, Request};
use longshore_api::openapi;
use longshore_http::extract::csv::CSV;
use longshore_http::extract::lines::{NDJSON, PATHS, TYPES};
use longshore_http::limits::{Limits, Streams};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tower::ServiceExt as _;
use uuid::Uuid;

use super::{MIGRATIONS, PRODUCTS, census, limited, until_as_before};

/// The names of NDJSON.
fn names() -> impl Iterator<Item = &'static str> {
    TYPES.iter().copied().filter(|name| !["application/json", CSV].contains(name))
}

#[test]
fn the_operations_that_take_lines_are_the_uploads() {
    let document: Value = serde_json::from_str(openapi::served()).unwrap();
    let mut takers = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if operation["requestBody"]["content"].get(NDJSON).is_some() {
                assert_eq!(method, "post", "{path}");
                takers.insert(path.as_str());
            }
        }
    }
    assert_eq!(takers, PATHS.iter().copied().collect::<BTreeSet<_>>());
    assert!(names().count() == 4 && names().any(|name| name == NDJSON));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn nothing_but_an_upload_may_take_any_time(_: PgPoolOptions, options: PgConnectOptions) {
    let limits = Limits { request: Duration::from_millis(300), ..Limits::default() };
    let (world, _) = limited(&options, limits).await;
    let api = &world.api;
    let rows =
        format!("{}\n{{\"productSku\":\"A\",\"name\":\"Anchor\"}}\n", json!({"eshop": api.tenant.eshop}));
    let (senders, uploads): (Vec<_>, Vec<_>) = names()
        .map(|name| {
            let (sender, receiver) = mpsc::unbounded::<Result<String, Infallible>>();
            sender.unbounded_send(Ok(rows.clone())).unwrap();
            let request = Request::post(PRODUCTS)
                .header("authorization", format!("Bearer {}", api.connector))
                .header("content-type", name);
            (sender, api.send(request.body(Body::from_stream(receiver)).unwrap()))
        })
        .unzip();
    let others = async {
        world.until("SELECT count(*) FROM job WHERE state = 'receiving'", 4).await;
        // a login has any type, and is ended in the time in which the uploads are not
        for name in names() {
            let endless = Body::from_stream(stream::pending::<Result<String, Infallible>>());
            let login = Request::post("/api/login/admin").header("content-type", name);
            api.send(login.body(endless).unwrap()).await.expect(503);
        }
        drop(senders);
    };
    let (uploads, ()) = tokio::join!(join_all(uploads), others);
    for upload in uploads {
        assert!(upload.status.is_success(), "{}", upload.text);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_token_may_have_only_a_limited_number_of_streams(_: PgPoolOptions, options: PgConnectOptions) {
    let limits = Limits { streams: Streams::new(2), ..Limits::default() };
    let (world, _) = limited(&options, limits).await;
    let api = &world.api;
    let prefer = [("prefer", "respond-async")];
    let ids = json!([Uuid::max()]);
    let job =
        api.call_with(&api.user, Method::PUT, "/api/product/activate", ids, &prefer).await.expect(202).json();
    let path = format!("/api/job/{}/events", job["id"].as_str().unwrap());
    let before = census(&world).await;

    // the progress of an unfinished job is one; an endless upload is the other
    let follow =
        Request::get(&path).header("host", "test").header("authorization", format!("Bearer {}", api.user));
    let following = api.router.clone().oneshot(follow.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(following.status(), 200);
    let (sender, receiver) = mpsc::unbounded::<Result<String, std::io::Error>>();
    sender.unbounded_send(Ok(format!("{}\n{{}}\n", json!({"eshop": api.tenant.eshop})))).unwrap();
    let upload = |name: &str, body: Body| {
        let request = Request::post(PRODUCTS)
            .header("authorization", format!("Bearer {}", api.user))
            .header("content-type", name);
        api.send(request.body(body).unwrap())
    };
    let refused = async {
        world.until("SELECT count(*) FROM job WHERE state = 'receiving'", 1).await;
        let waiting = format!("{}?wait=1", path.trim_end_matches("/events"));
        let mut replies = vec![api.get(&api.user, &path).await, api.get(&api.user, &waiting).await];
        for name in names() {
            replies.push(upload(name, Body::from("{}")).await);
        }
        for reply in replies {
            let reply = reply.expect(429);
            assert_eq!(reply.json()["code"], "rate_limited");
            assert_eq!(reply.header("retry-after"), Some("5"));
        }
        // other requests are accepted, and so are streams of other accounts
        api.post(&api.user, "/api/product/list", Value::Null).await.expect(200);
        let follow = Request::get(&path)
            .header("host", "test")
            .header("authorization", format!("Bearer {}", api.connector));
        let other = api.router.clone().oneshot(follow.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(other.status(), 200);
        // after one ends, another may open
        drop(following);
        let follow = Request::get(&path)
            .header("host", "test")
            .header("authorization", format!("Bearer {}", api.user));
        let next = api.router.clone().oneshot(follow.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(next.status(), 200);
        sender.unbounded_send(Err(std::io::Error::other("reset"))).unwrap();
    };
    let (broken, ()) = tokio::join!(upload(NDJSON, Body::from_stream(receiver)), refused);
    assert_eq!(broken.expect(400).json()["detail"], "the body ended early");
    until_as_before(&world, &before).await;
}
