use longshore_domain::job::payload::ROWS_PER_CHUNK;
use longshore_domain::job::receiving::{self, Receiving};
use longshore_domain::partner::push::{self, Push};
use longshore_kernel::migration::MIGRATIONS;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

async fn begin(world: &World) -> Receiving<'_> {
    begin_with(world, |row| row).await
}

/// With a SKU for each row.
async fn begin_with(world: &World, sku: impl Fn(usize) -> usize) -> Receiving<'_> {
    let header = json!({"eshop": world.tenant.eshop, "warehouseId": world.tenant.warehouse});
    let target = push::target(&world.services, &world.context, Push::Stocks, header).await.unwrap();
    let mut receiving = Receiving::begin(&world.services, &world.context, target).await.unwrap();
    for n in (0..=ROWS_PER_CHUNK).map(sku) {
        receiving.row(format!(r#"{{"productSku":"P{n}","quantity":1}}"#).as_bytes(), None).await.unwrap();
    }
    receiving
}

const JOBS: &str = "SELECT count(*) FROM job";
const CHUNKS: &str = "SELECT count(*) FROM job_chunk";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_stream_that_breaks_off_leaves_no_job(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let receiving = begin(&world).await;
    assert_eq!(world.count(CHUNKS).await, 1, "a full chunk is staged while the rest arrives");
    assert_eq!(world.drain().await, 0, "and is not due before the stream has ended");
    receiving.abandon().await;
    assert_eq!((world.count(JOBS).await, world.count(CHUNKS).await), (0, 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_stream_whose_request_is_dropped_removes_its_job_at_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    drop(begin(&world).await);
    world.until(JOBS, 0).await;
    assert_eq!(world.count(CHUNKS).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_stream_whose_request_is_dropped_while_it_is_accepted_is_accepted_or_leaves_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    // the last transaction waits in the middle, where its request is dropped
    let mut gate = world.owner.begin().await.unwrap();
    let held = "SELECT pg_advisory_xact_lock(hashtextextended('job sequence ' || id, 0)) FROM organisation";
    sqlx::raw_sql(held).execute(&mut *gate).await.unwrap();
    let receiving = begin(&world).await;
    {
        let finishing = std::pin::pin!(receiving.finish(None));
        tokio::select! {
            done = finishing => panic!("{done:?}"),
            () = world.until_locked() => {}
        }
    }
    gate.rollback().await.unwrap();
    // it was not accepted, so nothing of it remains
    world.until(JOBS, 0).await;
    let receiving = begin(&world).await;
    let job = receiving.finish(None).await.unwrap().job.unwrap();
    assert_eq!(world.job(job).await["state"], "queued");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_stream_that_takes_long_to_accept_is_renewed_and_accepted(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    // the second row of the first chunk names the SKU of the first
    let receiving = begin_with(&world, |row| row.max(1)).await;
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM job_chunk FOR UPDATE").execute(&mut *gate).await.unwrap();
    let mut finishing = std::pin::pin!(receiving.finish(None));
    tokio::select! {
        done = &mut finishing => panic!("{done:?}"),
        () = world.until_locked() => {}
    }
    // if its process died now, it would be removed within two minutes (docs/limits.md#disconnected-clients)
    let lasts = "SELECT count(*) FROM job WHERE receiving_until > now() + interval '1 minute'";
    assert_eq!(world.count(lasts).await, 0);
    // as if it had looked for equal keys for nearly as long
    world.execute("UPDATE job SET receiving_until = now() + interval '30 seconds'").await;
    let renewed = "SELECT count(*) FROM job WHERE receiving_until > now() + interval '45 seconds'";
    tokio::select! {
        done = &mut finishing => panic!("{done:?}"),
        () = world.until(renewed, 1) => {}
    }
    assert_eq!(receiving::expire(&world.services.db.main).await.unwrap(), 0);
    gate.rollback().await.unwrap();
    let job = finishing.await.unwrap().job.unwrap();
    assert_eq!(world.job(job).await["state"], "queued");
    assert_eq!(world.count("SELECT sum(cardinality(duplicates)) FROM job_chunk").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_stream_whose_process_died_is_removed_by_the_upkeep(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    // a process that dies runs no destructors
    std::mem::forget(begin(&world).await);
    assert_eq!(receiving::expire(&world.services.db.main).await.unwrap(), 0, "its sender may still be there");
    world.execute("UPDATE job SET receiving_until = now() - interval '1 second'").await;
    assert_eq!(receiving::expire(&world.services.db.main).await.unwrap(), 1);
    assert_eq!((world.count(JOBS).await, world.count(CHUNKS).await), (0, 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_stream_whose_job_is_gone_gets_an_error_and_accepts_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let receiving = begin(&world).await;
    world.execute("DELETE FROM job").await;
    assert_eq!(receiving.finish(None).await.unwrap_err().kind().status, 409);
    assert_eq!((world.count(JOBS).await, world.count(CHUNKS).await), (0, 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_stream_without_rows_is_a_job_that_has_succeeded(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let job = world.sync(Push::Stocks, Vec::<String>::new()).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [0, 0, 0]));
}
