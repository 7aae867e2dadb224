//! Hand-overs while Postgres was set back, and that is not mended (`docs/backup.md#after-a-restore`).

use longshore_domain::expedition::handover::{lane, setting};
use longshore_kernel::migration::MIGRATIONS;
use longshore_worker::handover::Ran;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{CANCEL, Depot};

/// What keeps the system from being called, as the setting shows it.
async fn blocked_by(depot: &Depot) -> Value {
    let world = &depot.place.world;
    let shown = setting::find(&world.services, world.context.scope(), depot.wms).await.unwrap();
    let shown: Value = serde_json::from_str(&shown.body.unwrap()).unwrap();
    shown["blockedBy"].clone()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn no_call_begins_after_a_set_back_until_it_is_mended(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let (db, owner) = (&depot.place.world.services.db, &depot.place.world.owner);
    let taken = depot.send("A-1").await;
    depot.drain().await;
    assert_eq!(blocked_by(&depot).await, Value::Null);

    let begun = "INSERT INTO set_back (epoch, reason, since) VALUES (2, 'a test', now())";
    sqlx::query(begun).execute(owner).await.unwrap();
    // orders and cancels are taken, and wait
    let waits = depot.send("A-2").await;
    depot.command(taken, &CANCEL).await.unwrap();
    assert!(lane::due(db).await.unwrap().is_empty());
    assert_eq!(depot.run().await, Ran::Done);
    assert_eq!(depot.calls(), [("PUT".to_owned(), 1)]);
    depot.must_be(waits, "awaiting_processing", Some("pending")).await;
    depot.must_be(taken, "waiting_for_cancel", Some("withdrawing")).await;
    assert_eq!(blocked_by(&depot).await, json!("set_back"));
    // the connection can be tested
    assert_eq!(depot.tested().await.works, Some(true));

    sqlx::query("UPDATE set_back SET mended_at = now()").execute(owner).await.unwrap();
    assert_eq!(lane::due(db).await.unwrap(), [depot.wms]);
    depot.drain().await;
    depot.must_be(waits, "awaiting_processing", Some("accepted")).await;
    depot.must_be(taken, "canceled", Some("withdrawn")).await;
    assert_eq!(blocked_by(&depot).await, Value::Null);
}
