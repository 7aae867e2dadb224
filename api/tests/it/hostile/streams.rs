//! The streams that an account may have open.

use axum::body::Body;
use futures::channel::mpsc;
use http::{Method, Request};
use longshore_http::limits::{Limits, Streams};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tower::ServiceExt as _;
use uuid::Uuid;

use super::{MIGRATIONS, PRODUCTS, census, limited, until_as_before};

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
    let upload = |body: Body| {
        let request = Request::post(PRODUCTS)
            .header("authorization", format!("Bearer {}", api.user))
            .header("content-type", "application/x-ndjson");
        api.send(request.body(body).unwrap())
    };
    let refused = async {
        world.until("SELECT count(*) FROM job WHERE state = 'receiving'", 1).await;
        for reply in [upload(Body::from("{}")).await, api.get(&api.user, &path).await] {
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
    let (broken, ()) = tokio::join!(upload(Body::from_stream(receiver)), refused);
    assert_eq!(broken.expect(400).json()["detail"], "the body ended early");
    until_as_before(&world, &before).await;
}
