//! A worker in a separate process of this binary, for tests that kill it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use apalis::prelude::{Monitor, ParallelizeExt, WorkerBuilder, WorkerBuilderExt};
use longshore_kernel::queue::Queues;
use longshore_kernel::retry::{Failure, RetryPolicy, retry};
use longshore_worker::queue::{Config, MAX_CONCURRENCY, QueueControl, RedisStream, spawn};
use tokio::signal::unix::{SignalKind, signal};

use super::support::{QUEUE, Scratch, quick, setting, until};

/// An id that kills the process that handles it.
pub(super) const POISON: &str = "poison";

const WRITTEN_DOWN: RetryPolicy =
    RetryPolicy { attempts: 200, initial: Duration::from_millis(5), max: Duration::from_millis(50) };

/// The process of a test; dropping it kills it.
pub(super) struct Process(Child);

impl Process {
    /// Starts it; `busy` is how long its tasks take.
    pub(super) fn start(scratch: &Scratch, concurrency: usize, busy: Duration) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["queue::child::works_until_it_is_told_to_stop", "--exact", "--ignored"])
            .env("BELT_URL", &scratch.url)
            .env("BELT_PREFIX", &scratch.prefix)
            .env("BELT_CONCURRENCY", concurrency.to_string())
            .env("BELT_BUSY_MS", busy.as_millis().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    pub(super) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(super) fn terminate(&self) {
        let killed = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }

    pub(super) fn exited(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    pub(super) async fn wait(&mut self) -> ExitStatus {
        until("the process ends", || self.exited().is_some()).await;
        self.exited().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The list of ids that a child has begun.
pub(super) fn began(scratch: &Scratch) -> String {
    format!("{}began", scratch.prefix)
}

/// The list of ids that a child has finished.
pub(super) fn finished(scratch: &Scratch) -> String {
    format!("{}finished", scratch.prefix)
}

/// The list of entries that a child saw as dead.
pub(super) fn dead(scratch: &Scratch) -> String {
    format!("{}dead", scratch.prefix)
}

fn variable(name: &str) -> String {
    setting(name).expect("started by another test")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the process that other tests start and kill"]
async fn works_until_it_is_told_to_stop() {
    let (url, prefix) = (variable("BELT_URL"), variable("BELT_PREFIX"));
    let busy = Duration::from_millis(variable("BELT_BUSY_MS").parse().unwrap());
    let concurrency = variable("BELT_CONCURRENCY").parse().unwrap();
    let client = redis::Client::open(url).unwrap();
    let queues = Queues::new(client, &prefix).unwrap();
    let control = QueueControl::new(concurrency);
    let (journal, handle) = (queues.connection(), control.clone());
    let monitor = Monitor::new().shutdown_timeout(Duration::from_secs(5)).register(move |_| {
        let record = {
            let (journal, prefix) = (journal.clone(), prefix.clone());
            move |list: &'static str, id: String| {
                let (journal, key) = (journal.clone(), format!("{prefix}{list}"));
                // Tests cut connections, but the lists must be complete nevertheless.
                retry(WRITTEN_DOWN, move || {
                    let (mut journal, key, id) = (journal.clone(), key.clone(), id.clone());
                    async move {
                        let written = redis::cmd("RPUSH").arg(key).arg(id).exec_async(&mut journal).await;
                        written.map_err(Failure::Transient)
                    }
                })
            }
        };
        let tell = record.clone();
        let config = Config { close_grace: Duration::from_secs(1), ..quick(concurrency) };
        let stream = RedisStream::<String>::controlled(handle.clone(), &queues, QUEUE, config)
            .on_dead(move |entry| tell("dead", entry.id));
        WorkerBuilder::new("child").backend(stream).parallelize(spawn).concurrency(MAX_CONCURRENCY).build(
            move |id: String| {
                let record = record.clone();
                async move {
                    record("began", id.clone()).await?;
                    if id == POISON {
                        tokio::time::sleep(busy / 2).await;
                        std::process::abort();
                    }
                    tokio::time::sleep(busy).await;
                    record("finished", id).await
                }
            },
        )
    });
    let mut terminated = signal(SignalKind::terminate()).unwrap();
    let stop = async move {
        terminated.recv().await;
        Ok(())
    };
    monitor.run_with_signal(stop).await.unwrap();
    control.closed().await;
}
