//! Lists without a limit.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt as _;
use longshore_api::routes::list::send;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_domain::list::stream::{Piece, Stream};
use longshore_domain::list::{self, Form, Listed};
use longshore_kernel::access::Scope;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::fixture::{MIGRATIONS, break_off, list as ask, store_many};
use crate::support::Api;
use crate::support::strangers;

const PATIENCE: Duration = Duration::from_secs(30);

async fn open(api: &Api, patience: Duration) -> (String, Stream) {
    let body = Some(json!({"select": ["id", "name", "eshops"]}));
    match list::answer(&api.services, &PRODUCT, &Scope::Everything, None, body, Form::Json, patience)
        .await
        .unwrap()
    {
        Listed::Stream(first, stream) => (first, stream),
        Listed::Whole(text) => panic!("{} bytes", text.len()),
    }
}

async fn opened(api: &Api, patience: Duration) -> Response {
    let (first, stream) = open(api, patience).await;
    send(first, stream)
}

#[tokio::test]
async fn every_match_is_returned_without_a_limit() {
    let api = Api::new(&strangers().await).await;
    for (stored, total) in [(999, 999), (1, 1_000), (1, 1_001), (1_499, 2_500), (3, 2_503)] {
        store_many(&api, stored).await;
        let fixed = json!({"type": {"eq": "physical"}});
        let sort = json!([{"field": "type", "order": "DESC"}, {"field": "id"}]);
        let answer = ask(&api, &api.user, "product", json!({"criteria": fixed, "sort": sort})).await;
        assert_eq!(
            answer["paging"],
            json!({"returned": total, "from": 0, "to": total, "total": total, "next": null})
        );
        let ids: Vec<_> =
            answer["results"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), total);
        assert!(ids.is_sorted_by(|a, b| a < b));
    }
    let answer = ask(&api, &api.user, "product", json!({"offset": 1_000, "nested": true})).await;
    assert_eq!(
        answer["paging"],
        json!({"returned": 1_503, "from": 1_000, "to": 2_503, "total": 2_503, "next": null})
    );
    let results = answer["results"].as_array().unwrap();
    assert!(
        results
            .iter()
            .all(|r| r["organisation"]["name"] == "Gifts" && r["eshops"][0]["name"] == "Gifts shop")
    );
    let past = ask(&api, &api.user, "product", json!({"offset": 3_000})).await;
    assert_eq!(
        past["paging"],
        json!({"returned": 0, "from": 3_000, "to": 3_000, "total": 2_503, "next": null})
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_stream_shows_the_database_as_of_its_beginning(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    store_many(&api, 20_000).await;
    let (mut text, mut stream) = open(&api, PATIENCE).await;
    store_many(&api, 100).await;
    sqlx::query("DELETE FROM product WHERE product_sku LIKE '%9'")
        .execute(&api.services.db.main)
        .await
        .unwrap();
    while let Some(Piece::More(piece) | Piece::Last(piece)) = stream.next().await.unwrap() {
        text.push_str(&piece);
    }
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["paging"]["total"], 20_000);
    assert_eq!(answer["results"].as_array().unwrap().len(), 20_000);
}

/// Waits until no connection of the streams is in use.
async fn all_connections_are_back(streams: &PgPool) {
    let back = async {
        while streams.size() as usize != streams.num_idle() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), back).await.unwrap();
}

async fn read(mut body: Body) -> (usize, bool) {
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => length += frame.into_data().unwrap().len(),
            Err(_) => return (length, false),
        }
    }
    (length, true)
}

#[tokio::test]
async fn a_reader_that_stalls_is_cut_off_and_releases_its_connection() {
    let api = Api::new(&strangers().await).await;
    store_many(&api, 40_000).await;
    let whole = opened(&api, PATIENCE).await;
    let (length, complete) = read(whole.into_body()).await;
    assert!(complete);
    let stalled = opened(&api, Duration::from_millis(50)).await;
    all_connections_are_back(&api.services.db.streams).await;
    let (got, complete) = read(stalled.into_body()).await;
    assert!(!complete && got < length, "{got} of {length} bytes looked like a whole answer");
}

#[tokio::test]
async fn a_reader_that_disconnects_releases_its_connection() {
    let api = Api::new(&strangers().await).await;
    store_many(&api, 40_000).await;
    for _ in 0..6 {
        drop(opened(&api, PATIENCE).await);
    }
    all_connections_are_back(&api.services.db.streams).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_error_after_the_first_byte_breaks_the_answer_off(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    store_many(&api, 40_000).await;
    let response = opened(&api, PATIENCE).await;
    assert_eq!(response.status(), 200);
    break_off(options).await;
    let (_, complete) = read(response.into_body()).await;
    assert!(!complete);
}
