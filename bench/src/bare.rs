//! The floors of measurements over HTTP: the same libraries with the same Postgres and Redis, without the
//! service around them. Each is a separate process, which the measurements start (`longshore-bench bare`).

pub mod chain;
pub mod look_up;

use longshore_testkit::client;
use longshore_testkit::port::free_port;
use longshore_testkit::process::{Process, ready};
use longshore_testkit::stack::Stack;
use tokio::process::Command;

/// Starts a floor on the database and Redis of a stack; returns its URL and its process, which is killed when
/// dropped.
///
/// # Errors
/// When it is not ready in time.
pub(crate) async fn start(stack: &Stack, floor: &[&str]) -> anyhow::Result<(String, Process)> {
    let bind = format!("127.0.0.1:{}", free_port()?);
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bare").args(floor).args(["--bind", &bind]);
    command.env("DATABASE_URL", stack.database_url.as_str()).env("REDIS_URL", &stack.redis_url);
    let process = Process::start(command.into_std(), stack.folder().join("bare.log"))?;
    let base_url = format!("http://{bind}");
    let http = client::outside()?;
    // any answer shows that it listens
    ready(&process.log, || async { http.get(&base_url).send().await.is_ok() }).await?;
    Ok((base_url, process))
}
