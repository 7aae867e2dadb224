//! Orders on their way that have no more news (`docs/reference/orders.md#statuses`).

use longshore_domain::expedition::silence;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, World, must_be_wrong_status};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_on_its_way_is_probably_delivered_after_days_without_news(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "expedition_status_change").await;
    let silent = world.at("carrier_picked_up", "silent").await;
    let waits = world.at("ready_to_takeover", "waits").await;
    let heard = world.at("carrier_picked_up", "heard").await;
    let recent = world.at("carrier_picked_up", "recent").await;
    let packed = world.at("waiting_for_the_carrier", "packed").await;
    for order in [&silent, &waits, &heard, &packed] {
        world.pass_silence(order, 14).await;
    }
    world.pass_silence(&recent, 13).await;
    // a parcel is news, though it changes no status
    let parcel = json!({"status": "carrier_picked_up", "parcels": [{"extPackageNumber": "1"}]});
    world.report(&heard, parcel).await.expect(200);
    assert_eq!(silence::presume(&world.api.services, 14).await.unwrap(), 2);
    assert_eq!(silence::presume(&world.api.services, 14).await.unwrap(), 0);
    for order in [&heard, &recent, &packed] {
        assert_eq!(world.read(order).await["status"], order["status"]);
    }
    for before in [&silent, &waits] {
        let after = world.read(before).await;
        assert_eq!(after["status"], "probably_delivered");
        assert_eq!(after["version"], before["version"].as_i64().unwrap() + 1);
        assert_eq!((&after["sentAt"], &after["deliveredAt"]), (&before["sentAt"], &Value::Null));
        let audit = after["audits"].as_array().unwrap().last().unwrap();
        assert_eq!(
            (&audit["statusTo"], &audit["updatedBy"]),
            (&json!("probably_delivered"), &json!("upkeep"))
        );
        let event: Value = sqlx::query_scalar(
            "SELECT data FROM event WHERE entity_id = $1::uuid AND data -> 'fields' ->> 'status' = 'probably_delivered'",
        )
        .bind(after["id"].as_str().unwrap())
        .fetch_one(&world.owner)
        .await
        .unwrap();
        assert_eq!(event["version"], after["version"]);
        assert_eq!(event["fields"]["previousStatus"], before["status"]);
    }
    // later news count
    let there = world.report(&silent, json!({"status": "ready_to_takeover"})).await.expect(200).json();
    assert_eq!(there["status"], "ready_to_takeover");
    must_be_wrong_status(
        world.report(&waits, json!({"status": "carrier_picked_up"})).await,
        "probably_delivered",
    );
    let end = world.report(&waits, json!({"status": "delivered"})).await.expect(200).json();
    assert_eq!(end["status"], "delivered");
    assert!(end["deliveredAt"].is_string());
    world.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_somebody_else_has_locked_is_left_to_the_next_time(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let [one, two] = [world.at("carrier_picked_up", "1").await, world.at("carrier_picked_up", "2").await];
    let mut lock = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM expedition WHERE id = $1::uuid FOR UPDATE")
        .bind(one["id"].as_str().unwrap())
        .execute(&mut *lock)
        .await
        .unwrap();
    assert_eq!(silence::presume(&world.api.services, 0).await.unwrap(), 1);
    assert_eq!(world.read(&two).await["status"], "probably_delivered");
    lock.rollback().await.unwrap();
    assert_eq!(silence::presume(&world.api.services, 0).await.unwrap(), 1);
    assert_eq!(world.read(&one).await["status"], "probably_delivered");
    world.must_hold().await;
}
