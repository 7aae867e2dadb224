//! Leases of chunks while the process has other work than to renew them.

use longshore_domain::job::chunk::Claim;
use longshore_domain::job::kind::JobKind::ProductDeactivate;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::services;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::claim::claim;
use super::support::World;

const LAPSE: &str = "UPDATE job_chunk SET leased_until = now() - interval '1 second' WHERE state = 'running'";
const HELD: &str = "SELECT count(*) FROM job_chunk WHERE leased_until > now()";

/// Claims of as many jobs, in their order.
async fn claims(world: &World, count: usize) -> Vec<Box<Claim>> {
    let mut claims = Vec::new();
    for product in world.products(count).await {
        let job = world.switch(ProductDeactivate, &[product]).await;
        claims.push(claim(world, job).await);
    }
    claims
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_claim_stays_leased_while_work_uses_all_connections(_: PgPoolOptions, options: PgConnectOptions) {
    let services = services::with_connections(&options, 2).unwrap();
    let world = World::over(services, &options).await;
    let claim = claims(&world, 1).await.remove(0);
    let lease = world.worker.leases.hold(&claim);
    let in_use =
        [world.services.db.main.acquire().await.unwrap(), world.services.db.main.acquire().await.unwrap()];
    let keeping = tokio::spawn(world.worker.leases.clone().keep_alive());
    for _ in 0..2 {
        world.execute(LAPSE).await;
        world.until(HELD, 1).await;
    }
    assert!(!lease.lost.is_cancelled());
    drop(in_use);
    lease.end();
    keeping.abort();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_claim_that_cannot_be_given_back_yet_costs_no_other_its_lease(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let claims = claims(&world, 3).await;
    let [locked, abandoned, kept] = &claims[..] else { panic!("there are three") };
    let leases = &world.worker.leases;
    let held = [leases.hold(locked), leases.hold(abandoned), leases.hold(kept)];
    world.execute(LAPSE).await;
    let mut holder = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM job_chunk WHERE job_id = $1 FOR UPDATE")
        .bind(locked.job)
        .execute(&mut *holder)
        .await
        .unwrap();
    let [first, second, lease] = held;
    drop((first, second));
    let keeping = tokio::spawn(leases.clone().keep_alive());
    world.until_locked().await;
    // the one is renewed, the other is free again, and the third waits
    world.until(HELD, 1).await;
    world.until("SELECT count(*) FROM job_chunk WHERE state = 'queued'", 1).await;
    holder.rollback().await.unwrap();
    world.until("SELECT count(*) FROM job_chunk WHERE state = 'queued'", 2).await;
    assert_eq!(
        world.count("SELECT sum(attempts + crashes)::bigint FROM job_chunk").await,
        1,
        "only the one that is held"
    );
    lease.end();
    keeping.abort();
}
