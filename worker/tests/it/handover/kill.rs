//! A worker's process is killed after the system of a warehouse has taken an order, and before that is recorded.

use std::time::Duration;

use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::process::{self, Process};
use longshore_testkit::services::until_locked;
use longshore_testkit::wms::{Mischief, On, Stage};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tempfile::TempDir;

use super::support::{CANCEL, Depot, PATIENCE};
use crate::program;

/// Sessions that wait for a lock.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// Starts a process of the worker, on the queues of the depot.
fn start(depot: &Depot, options: &PgConnectOptions, folder: &TempDir, name: &str) -> Process {
    program::start(options, depot.place.world.services.queues.prefix(), folder, name)
}

async fn kill(worker: Process) {
    process::kill(worker.pid().unwrap()).await.unwrap();
    drop(worker);
}

/// An order that the system has taken, with this fault of the call, and the worker that called.
async fn taken(
    depot: &Depot,
    (options, folder): (&PgConnectOptions, &TempDir),
    fault: Mischief,
) -> (ExpeditionId, Process) {
    depot.system.misbehave(On::Put, fault);
    let order = depot.send("A-1").await;
    let worker = start(depot, options, folder, "first");
    depot.system.wait_for(order.get(), Stage::Taken, PATIENCE).await.unwrap();
    (order, worker)
}

/// Another process calls again, once the first call must have ended.
async fn goes_on(depot: &Depot, (options, folder): (&PgConnectOptions, &TempDir), order: ExpeditionId) {
    depot.must_be(order, "awaiting_processing", Some("sending")).await;
    depot.time_passes().await;
    let second = start(depot, options, folder, "second");
    depot
        .place
        .world
        .until("SELECT count(*) FROM expedition_handover WHERE handover_state = 'accepted'", 1)
        .await;
    drop(second);
    depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    let entry = depot.entry(order).unwrap();
    assert_eq!((entry.stage, entry.taken.as_slice()), (Stage::Taken, [1].as_slice()));
    assert_eq!(depot.calls(), [("PUT".to_owned(), 1), ("PUT".to_owned(), 1)]);
    let accepted = "SELECT count(*) FROM audit WHERE action = 'expedition.handover'";
    assert_eq!(depot.place.world.count(accepted).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_whose_worker_is_killed_before_the_answer_comes_is_accepted_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (depot, folder) = (Depot::new(&options).await, TempDir::new().unwrap());
    let (order, worker) = taken(&depot, (&options, &folder), Mischief::DoneHang).await;
    kill(worker).await;
    goes_on(&depot, (&options, &folder), order).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_whose_worker_is_killed_while_it_records_the_answer_is_accepted_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (depot, folder) = (Depot::new(&options).await, TempDir::new().unwrap());
    let late = Mischief::Late(Duration::from_secs(2));
    let (order, worker) = taken(&depot, (&options, &folder), late).await;
    let owner = &depot.place.world.owner;
    let mut holder = owner.begin().await.unwrap();
    sqlx::query("SELECT FROM expedition WHERE id = $1 FOR UPDATE")
        .bind(order)
        .execute(&mut *holder)
        .await
        .unwrap();
    until_locked(owner, 1).await.unwrap();
    kill(worker).await;
    // its machine is gone, too: nothing of its transaction comes to an end
    sqlx::query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    .execute(owner)
    .await
    .unwrap();
    depot.place.world.until(WAITING, 0).await;
    holder.rollback().await.unwrap();
    goes_on(&depot, (&options, &folder), order).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_is_canceled_after_its_worker_was_killed_is_asked_back(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (depot, folder) = (Depot::new(&options).await, TempDir::new().unwrap());
    let (order, worker) = taken(&depot, (&options, &folder), Mischief::DoneHang).await;
    kill(worker).await;
    let canceled = depot.command(order, &CANCEL).await.unwrap();
    assert_eq!(canceled["status"], "waiting_for_cancel");
    depot.time_passes().await;
    let second = start(&depot, &options, &folder, "second");
    depot.place.world.until("SELECT count(*) FROM expedition WHERE status = 'canceled'", 1).await;
    drop(second);
    depot.must_be(order, "canceled", Some("withdrawn")).await;
    assert_eq!(depot.entry(order).unwrap().stage, Stage::Withdrawn);
    assert_eq!(depot.calls(), [("PUT".to_owned(), 1), ("DELETE".to_owned(), 1)]);
}
