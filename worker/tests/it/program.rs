//! The program of the worker, for tests that kill or stop it.

use std::process::Command;

use longshore_testkit::process::Process;
use longshore_testkit::services::redis_settings;
use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;

/// The key of `services::for_test`.
const KEY: &str = "test:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

/// Starts a process of the worker on the database of a test, and on queues with this prefix. Dropping it kills it (SIGKILL).
pub(crate) fn start(options: &PgConnectOptions, prefix: &str, folder: &TempDir, name: &str) -> Process {
    Process::start(command(options, prefix, folder), folder.path().join(format!("{name}.log"))).unwrap()
}

/// That process, not started yet.
pub(crate) fn command(options: &PgConnectOptions, prefix: &str, folder: &TempDir) -> Command {
    let redis = redis_settings().unwrap();
    let mut worker = Command::new(env!("CARGO_BIN_EXE_longshore-worker"));
    worker
        .env("DATABASE_URL", options.to_url_lossy().as_str())
        .env("REDIS_URL", redis.redis_url.as_str())
        .env("LONGSHORE_QUEUE_PREFIX", prefix)
        .env("LONGSHORE_ENCRYPTION_KEY", KEY)
        .env("LONGSHORE_OBJECT_STORE", folder.path())
        .env("LONGSHORE_WEBHOOK_ALLOW_HTTP", "true")
        .env("LONGSHORE_WEBHOOK_ALLOW_SUBNETS", "127.0.0.0/8,::1/128")
        .env("LONGSHORE_WORKER_BIND", "127.0.0.1:0");
    worker
}
