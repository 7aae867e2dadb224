use std::time::Duration;

use longshore_domain::expedition::allocation::{self, allocate};
use longshore_domain::expedition::command::Command;
use longshore_domain::partner::push::Push;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::services::{analyse_by_hand, pages_looked_at, until_locked};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{Place, id};

const SEND: Command = Command::Send { rebook: false };

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_is_sent_while_the_allocator_waits_for_a_lock_is_not_overtaken(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    let earlier = id(&place.create(place.body("earlier", &[(0, 1)])).await.unwrap());
    let later = place.send("later", &[(0, 1)]).await;
    place.count(&[(0, 1)]).await;
    let waiting = allocation::places(&place.world.services).await.unwrap().pop().unwrap();
    let mut beside = place.world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM expedition WHERE id = $1 FOR UPDATE")
        .bind(later)
        .execute(&mut *beside)
        .await
        .unwrap();
    // it has read who waits, and waits for the lock of the one that it has found
    let allocating = allocate(&place.world.services, waiting.place, Duration::from_secs(30));
    let sending = async {
        until_locked(&place.world.owner, 1).await.unwrap();
        place.command(earlier, &SEND).await.unwrap();
        assert_eq!(place.status(earlier).await, "awaiting_reservation");
        beside.rollback().await.unwrap();
    };
    let (allocated, ()) = tokio::join!(allocating, sending);
    assert!(allocated.unwrap().is_more, "an order waits that it has not looked at");
    place.allocate().await;
    assert_eq!(place.status(earlier).await, "awaiting_processing");
    assert_eq!(place.status(later).await, "waiting_for_goods");
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_a_take_back_reads_does_not_grow_with_orders_that_hold_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    const OLD: usize = 3_000;
    let place = Place::new(&options, 1).await;
    let world = &place.world;
    analyse_by_hand(&world.owner).await.unwrap();
    let rows = (0..OLD).map(|n| {
        let mut row = place.body(&format!("old-{n}"), &[(0, 1)]);
        row["send"] = false.into();
        row.as_object_mut().unwrap().remove("eshop");
        row.to_string()
    });
    world.sync(Push::Expeditions, rows).await;
    world.drain().await;
    for statistics in ["none", "known"] {
        place.count(&[(0, 5)]).await;
        let orders = [0, 1, 2, 3, 4].map(|n| format!("{statistics}-{n}"));
        for order in &orders {
            place.send(order, &[(0, 1)]).await;
        }
        place.count(&[(0, 3)]).await;
        let pool = &world.services.db.main;
        let before = pages_looked_at(pool, 1, &world.owner).await.unwrap();
        place.allocate().await;
        let pages = pages_looked_at(pool, 1, &world.owner).await.unwrap() - before;
        assert!(pages < 3_000, "statistics {statistics}: {pages} pages");
        assert_eq!(place.stock(0).await, (3, 3, 2));
        place.must_hold().await;
        // all of them leave, and the next ones are the newest again
        for order in &orders {
            let id = sqlx::query_scalar("SELECT id FROM expedition_detail WHERE order_number = $1");
            let id: ExpeditionId = id.bind(order).fetch_one(&world.owner).await.unwrap();
            place.command(id, &Command::Cancel { reason: None }).await.unwrap();
        }
        world.execute("ANALYZE").await;
    }
}
