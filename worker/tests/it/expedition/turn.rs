use std::time::Duration;

use longshore_shared::expedition::allocation::{self, allocate};
use longshore_shared::expedition::command::Command;
use longshore_shared::kernel::migration::MIGRATIONS;
use longshore_testkit::services::until_locked;
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
