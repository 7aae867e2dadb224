//! Long requests end with their token.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::SinkExt as _;
use futures::channel::mpsc;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use longshore_http::extract::csv::CSV;
use longshore_http::extract::lines::TYPES;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tower::ServiceExt as _;

use crate::product::{MIGRATIONS, World};
use crate::support::strangers;

/// The time limit for a revocation to take effect, with a reserve for a busy machine.
const WITHIN: Duration = Duration::from_secs(5);

async fn revoke(world: &World) {
    let revoked = "UPDATE access_token SET revoked_at = now() WHERE role = 'connector'";
    sqlx::query(revoked).execute(&world.owner).await.unwrap();
}

#[tokio::test]
async fn a_stream_of_progress_breaks_off_soon_after_its_token_is_revoked() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let bulk = [("prefer", "respond-async")];
    let ids = json!([uuid::Uuid::nil()]);
    let path = "/api/product/activate";
    let job = api.call_with(&api.connector, Method::PUT, path, ids, &bulk).await.expect(202).json();
    let request = Request::get(format!("/api/job/{}/events", job["id"].as_str().unwrap()))
        .header("host", "longshore.test")
        .header("authorization", format!("Bearer {}", api.connector))
        .body(Body::empty())
        .unwrap();
    let reply = api.router.clone().oneshot(request).await.unwrap();
    assert_eq!(reply.status(), 200);
    let mut body = reply.into_body();
    assert!(body.frame().await.unwrap().unwrap().is_data());
    revoke(&world).await;
    let ends = async { while body.frame().await.is_some_and(|frame| frame.is_ok()) {} };
    tokio::time::timeout(WITHIN + WITHIN, ends).await.expect("the stream outlives its token");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_upload_is_refused_soon_after_its_token_is_revoked(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let eshop = world.api.tenant.eshop;
    let header = json!({ "eshop": eshop }).to_string() + "\n";
    let (mut senders, mut uploads) = (Vec::new(), Vec::new());
    for name in TYPES.iter().filter(|name| **name != "application/json") {
        let (mut sender, lines) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
        let path = "/api/partner-integration/eshop/sync/products";
        let of_csv = (format!("{path}?eshop={eshop}"), "productSku\n".to_owned());
        let (path, header) = if *name == CSV { of_csv } else { (path.to_owned(), header.clone()) };
        let request = Request::post(path)
            .header("host", "longshore.test")
            .header("authorization", format!("Bearer {}", world.api.connector))
            .header("content-type", *name)
            .body(Body::from_stream(lines))
            .unwrap();
        uploads.push(tokio::spawn(world.api.router.clone().oneshot(request)));
        sender.send(Ok(header.into())).await.unwrap();
        senders.push(sender);
    }
    world.until("SELECT count(*) FROM job WHERE state = 'receiving'", 5).await;
    revoke(&world).await;
    for upload in uploads {
        let reply =
            tokio::time::timeout(WITHIN + WITHIN, upload).await.expect("the upload outlives its token");
        assert_eq!(reply.unwrap().unwrap().status(), 401);
    }
    // its received rows are removed, and no job is visible
    assert_eq!(world.count("SELECT count(*) FROM job WHERE state <> 'receiving'").await, 0);
}
