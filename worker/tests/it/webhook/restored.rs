//! `restored`: what every webhook hears after Postgres was set back.

use chrono::{DateTime, Utc};
use longshore_domain::webhook::delivery::tell_of_restore;
use longshore_testkit::receiver::Receipt;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_webhook_hears_of_a_restore_whatever_it_subscribes_to_and_that_is_no_test(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hooks = [
        world.hook("/one", json!({"event": "product_change"})).await,
        world.hook("/two", json!({"event": "test", "ordered": true})).await,
    ];
    let at: DateTime<Utc> = "2026-01-31T12:30:00Z".parse().unwrap();
    let mut connection = world.pool.acquire().await.unwrap();
    assert_eq!(tell_of_restore(&mut connection, 2, at, at).await.unwrap(), 2);
    for hook in &hooks {
        world.drain(hook).await;
        let receipts = world.receiver.take();
        let [receipt]: &[Receipt; 1] = receipts.as_slice().try_into().unwrap();
        hook.verifier.verify(receipt).unwrap();
        let body: Value = receipt.json().unwrap();
        assert_eq!((&body["type"], body.get("test")), (&json!("restored"), None));
        let at = "2026-01-31T12:30:00.000000+00:00";
        assert_eq!(body["data"], json!({"id": body["id"], "epoch": 2, "since": at, "at": at}));
    }
}
