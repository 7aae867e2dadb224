//! Clients that disconnect while the service works for them.

use std::future::{Future as _, poll_fn};
use std::task::Poll;
use std::time::Duration;

use longshore_http::limits::Limits;
use longshore_kernel::database;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::socket::{Server, head, write};
use super::{MIGRATIONS, PRODUCTS, census, limited, until_as_before};
use crate::product::World;

/// Locks the table of jobs against writes.
pub(super) async fn close_jobs(world: &World) -> sqlx::PgTransaction<'static> {
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE job IN SHARE MODE").execute(&mut *gate).await.unwrap();
    gate
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_request_whose_client_disconnects_is_undone_and_its_key_is_free(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, app) = limited(&options, Limits::default()).await;
    let before = census(&world).await;
    let server = Server::start(app).await;
    for (method, path, body) in [
        ("PUT", "/api/product/activate", json!([Uuid::max()])),
        ("POST", PRODUCTS, json!({"eshop": world.api.tenant.eshop, "products": [{"productSku": "A"}]})),
    ] {
        let gate = close_jobs(&world).await;
        let mut stream = server.connect().await;
        let body = body.to_string();
        let length = body.len().to_string();
        let fields =
            [("Content-Type", "application/json"), ("Content-Length", &length), ("Idempotency-Key", "k")];
        let head = head(method, path, &world.api.user, &fields);
        assert!(write(&mut stream, head.as_bytes()).await && write(&mut stream, body.as_bytes()).await);
        world.blocked(1).await;
        assert_eq!(world.count("SELECT count(*) FROM idempotency").await, 1);
        drop(stream);
        // the key is released even while the database does not answer
        world.until("SELECT count(*) FROM idempotency", 0).await;
        gate.rollback().await.unwrap();
        until_as_before(&world, &before).await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_request_that_takes_too_long_is_ended_and_undone(_: PgPoolOptions, options: PgConnectOptions) {
    let limits = Limits { request: Duration::from_millis(300), ..Limits::default() };
    let (world, _) = limited(&options, limits).await;
    let before = census(&world).await;
    let gate = close_jobs(&world).await;
    let headers = [("idempotency-key", "k")];
    let path = "/api/product/activate";
    let ids = json!([Uuid::max()]);
    let put = || world.api.call_with(&world.api.user, http::Method::PUT, path, ids.clone(), &headers);
    let reply = put().await.expect(503);
    assert_eq!(reply.json()["code"], "unavailable");
    assert_eq!(reply.header("retry-after"), Some("5"));
    gate.rollback().await.unwrap();
    until_as_before(&world, &before).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_repeated_request_without_a_key_waits_for_the_first_and_is_checked_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let before = census(&world).await;
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE product IN SHARE MODE").execute(&mut *gate).await.unwrap();
    let open = async {
        world.blocked(2).await;
        gate.rollback().await.unwrap();
    };
    let (first, second, ()) =
        tokio::join!(world.post(world.body("sku")), world.post(world.body("sku")), open);
    let mut statuses = [first.status.as_u16(), second.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400]);
    let refused = if first.status == 400 { first } else { second };
    assert_eq!(refused.violations(), ["productSku already_taken"]);
    for (table, rows) in census(&world).await {
        let more = i64::from(matches!(table.as_str(), "product" | "product_eshop"));
        // a count of records has a row for each session that created some
        if !table.starts_with("audit") && table != "quota_use" {
            assert_eq!(rows, before[&table] + more, "{table}");
        }
    }
    assert_eq!(world.traces().await, [1, 0, 0]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_transaction_abandoned_while_it_begins_does_not_affect_later_ones(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    // with one connection, the next request uses that of the abandoned one
    let pool = PgPoolOptions::new().max_connections(1).connect_with(options.clone()).await.unwrap();
    let others = PgPoolOptions::new().connect_with(options).await.unwrap();
    sqlx::query("CREATE TABLE noted (looks bigint)").execute(&others).await.unwrap();
    // abandoned at every possible await: after one poll, after two …
    for looks in 1_i64.. {
        let mut left = looks;
        let mut begins = Box::pin(database::begin(&pool));
        let begun = poll_fn(|context| {
            left -= 1;
            match begins.as_mut().poll(context) {
                Poll::Ready(begun) => Poll::Ready(Some(begun.unwrap())),
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        let has_begun = begun.await.is_some();
        drop(begins);
        sqlx::query("INSERT INTO noted VALUES ($1)").bind(looks).execute(&pool).await.unwrap();
        let noted: Option<i64> =
            sqlx::query_scalar("SELECT max(looks) FROM noted").fetch_one(&others).await.unwrap();
        assert_eq!(noted, Some(looks));
        if has_begun {
            assert!(looks > 1, "it did not have to wait");
            return;
        }
    }
}
