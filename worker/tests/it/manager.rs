//! What the worker tells a service manager.

use std::cell::RefCell;

use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::manager::Manager;
use longshore_testkit::process::{Process, ready, signal};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tempfile::TempDir;

use crate::program;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_worker_says_when_it_works_that_it_is_alive_and_when_it_stops(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let folder = TempDir::new().unwrap();
    let manager = Manager::start(folder.path()).unwrap();
    let log = folder.path().join("worker.log");
    let mut worker =
        program::command(&options, &format!("test:{}:", options.get_database().unwrap()), &folder);
    worker.envs(manager.settings());
    let worker = RefCell::new(Process::start(worker, &log).unwrap());
    assert_eq!(manager.hears().await.unwrap(), "READY=1");
    assert!(std::fs::read_to_string(&log).unwrap().contains("working"), "ready means that it works");
    for _ in 0..3 {
        assert_eq!(manager.hears().await.unwrap(), "WATCHDOG=1");
    }
    let pid = worker.borrow().pid().unwrap();
    signal("TERM", &[pid]).await.unwrap();
    manager.waits_for("STOPPING=1").await.unwrap();
    ready(&log, async || worker.borrow_mut().has_ended()).await.unwrap();
    assert!(std::fs::read_to_string(&log).unwrap().contains("stopped"), "it ended in order");
}
