//! The allocator, in places of an organisation beside those of another.

use longshore_domain::expedition::allocation;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::services::until_locked;
use longshore_worker::allocation::keep;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::Place;
use crate::queue::support::eventually;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_organisation_with_many_places_hides_no_other(_: PgPoolOptions, options: PgConnectOptions) {
    let noisy = Place::new(&options, 1).await;
    let quiet = Place::over(noisy.world.services.clone(), &options, 1).await;
    // more than are found at once, and each has waited for longer
    for (place, count, waits) in [(&noisy, 1_200, "2 hours"), (&quiet, 2, "1 hour")] {
        let tenant = &place.world.tenant;
        sqlx::query(
            "WITH made AS (
                 INSERT INTO wms (id, organisation_id, name, distribution_center, store_key, internal_id)
                 SELECT uuid_v7(), $1, 'Loft ' || n, gen_random_uuid(), 'x' || n, 'x' || n FROM generate_series(1, $3) AS n
                 RETURNING id
             )
             INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity, marked_at)
             SELECT uuid_v7(), $1, p.id, $2, made.id, 0, now() - $4::interval
             FROM made CROSS JOIN product p WHERE p.organisation_id = $1",
        )
        .bind(tenant.organisation)
        .bind(tenant.warehouse)
        .bind(count)
        .bind(waits)
        .execute(&place.world.owner)
        .await
        .unwrap();
    }
    let places = allocation::places(&noisy.world.services).await.unwrap();
    let (a, b) = (noisy.world.tenant.organisation, quiet.world.tenant.organisation);
    let turns: Vec<_> = places.iter().take(5).map(|due| due.organisation).collect();
    assert_eq!((turns, places.len()), (vec![a, b, a, b, a], 1_000));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_place_that_is_locked_holds_up_no_other(_: PgPoolOptions, options: PgConnectOptions) {
    let noisy = Place::new(&options, 1).await;
    let quiet = Place::over(noisy.world.services.clone(), &options, 1).await;
    let owner = &noisy.world.owner;
    let locked = noisy.send("A", &[(0, 1)]).await;
    let other = quiet.send("B", &[(0, 1)]).await;
    noisy.count(&[(0, 1)]).await;
    let mut stalled = owner.begin().await.unwrap();
    sqlx::query("SELECT FROM product_stock WHERE organisation_id = $1 FOR UPDATE")
        .bind(noisy.world.tenant.organisation)
        .execute(&mut *stalled)
        .await
        .unwrap();
    let worker = noisy.world.worker.clone();
    let allocating = tokio::spawn(keep(worker.clone()));
    until_locked(owner, 1).await.unwrap();
    // what comes while the other is waited for is seen
    quiet.count(&[(0, 1)]).await;
    let becomes_booked = async |place: &Place, order: ExpeditionId| {
        eventually("the order is booked", async || {
            (place.status(order).await == "awaiting_processing").then_some(())
        })
        .await;
    };
    becomes_booked(&quiet, other).await;
    assert_eq!(noisy.status(locked).await, "waiting_for_goods");
    stalled.rollback().await.unwrap();
    becomes_booked(&noisy, locked).await;
    worker.stop.cancel();
    allocating.await.unwrap();
    noisy.must_hold().await;
}
