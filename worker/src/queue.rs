//! The reading side of the queues: an [`apalis`] backend over Redis Streams. The writing side is
//! [`longshore_kernel::queue`].
//!
//! # Guarantees
//!
//! - An entry on a queue reaches a handler at least once, despite any failure of workers, connections or the
//!   server, as long as Redis keeps the entry. If Redis loses it, the dispatcher finds the work in Postgres.
//!   A second delivery is possible (a kill between the end and the acknowledgement), so handlers claim their
//!   row.
//! - Every result of a handler ends the entry: the row in Postgres decides about another attempt. Only
//!   apalis' `RetryAfterError` and `DeferredError` bring the same entry back, within the visibility.
//! - A running entry is never taken from a living process, and is taken over when its process is silent for
//!   [`Config::visibility`].
//! - A task that kills its process is put aside after [`Config::max_deliveries`], with a warning in the log;
//!   tasks that ran beside it are not. The registry needs no more: a chunk counts such deaths in its row, and
//!   what is still due is queued again. [`RedisStream::on_dead`] reports such entries, as the tests use it.
//! - No error of Redis ends the worker or drops running tasks.
//! - The marker of an id is cleared before its handler starts, so the id can be queued again when it becomes
//!   due meanwhile.
//!
//! # Parts
//!
//! ```text
//!            read, take over        pop             call             report
//!   Redis ───────────────────▶ board ────▶ backend ──────▶ ack layer ──────▶ acknowledge ──▶ Redis
//!            (fetch, take_over)               (apalis: layers, handler)      XDEL, XACK
//!                                keep_alive: XCLAIM of all that is held; silent consumers; stop and pause
//! ```
//!
//! One consumer ([`RedisStream`]) runs three loops (`loops` starts and ends them): `fetch` on its own connection, because it blocks;
//! `acknowledge` and `keep_alive` on the shared one. They share the `board`: waiting entries, the number of
//! running ones, and every entry that this process holds. [`QueueControl`] is the owner's handle: pause,
//! concurrency, activity, end.
//!
//! # Building a worker
//!
//! Layers are listed from the outside in. Their order follows from ten pitfalls of the backend API, listed
//! below.
//!
//! ```
//! use std::time::Duration;
//! use apalis::prelude::{Data, Monitor, ParallelizeExt, WorkerBuilder, WorkerBuilderExt};
//! use longshore_kernel::queue::{Queue, Queues};
//! use longshore_worker::queue::{Config, Deliveries, MAX_CONCURRENCY, QueueControl, RedisStream, spawn};
//!
//! async fn work_on(chunk: String, deliveries: Data<Deliveries>) -> Result<(), std::io::Error> {
//!     tracing::debug!(chunk.id = chunk, queue.deliveries = deliveries.0.0, "claiming");
//!     Ok(())
//! }
//!
//! async fn run(queues: Queues) -> Result<(), Box<dyn std::error::Error>> {
//!     let config = Config { concurrency: 8, ..Config::default() };
//!     let control = QueueControl::new(config.concurrency);
//!     let handle = control.clone();
//!     let monitor = Monitor::new().shutdown_timeout(Duration::from_secs(30)).register(move |_| {
//!         let stream = RedisStream::<String>::controlled(handle.clone(), &queues, Queue::Chunk, config.clone());
//!         WorkerBuilder::new("chunk")
//!             .backend(stream)
//!             .parallelize(spawn)
//!             .concurrency(MAX_CONCURRENCY)
//!             .timeout(Duration::from_secs(300))
//!             .enable_tracing()
//!             .catch_panic()
//!             .build(work_on)
//!     });
//!     monitor.run_with_signal(tokio::signal::ctrl_c()).await?;
//!     control.closed().await; // what was dropped at the limit goes back to the queue
//!     Ok(())
//! }
//! ```
//!
//! 1. An `Err` from the polls of the backend ends the worker and drops running tasks, so this backend never
//!    returns one.
//! 2. The backend is not notified of a shutdown while tasks drain, and with a `shutdown_timeout` it is
//!    dropped: a timer checks for the shutdown, `Drop` closes, and `main` waits for [`QueueControl::closed`].
//! 3. apalis fixes the concurrency when the worker is built. The board enforces the current limit; the layer
//!    only sets the ceiling, [`MAX_CONCURRENCY`].
//! 4. A panic that leaves the service drops all tasks that run beside it: the ack layer catches it, with or
//!    without `catch_panic`. If a handler panics before it returns its future, apalis counts it as running
//!    for ever, and a graceful stop then waits for its time limit. Handlers are `async fn`s, which cannot do
//!    that.
//! 5. With `Kind = Durable` a decoding error ends the worker: the kind is `Ephemeral`, and ids are parsed in
//!    `poll_next`.
//! 6. Two running tasks with the same id panic under the feature `task-context`: the task's id is the
//!    entry's, and entries that are already held are filtered out of each read.
//! 7. Everything runs on one tokio task without `parallelize`, and a plain `tokio::spawn` there detaches a
//!    task from the worker, so that it would continue after a time-out or a stop. [`spawn`] aborts it. Listed
//!    first, `parallelize` moves the layers after it, and so the time-out, into the spawned task.
//! 8. `Monitor` calls the factory again after a failure and is synchronous: no constructor connects, and one
//!    [`QueueControl`] serves every stream that the factory makes.
//! 9. The backend's own layer is outside all others and sees the final result; `timeout` goes before
//!    `enable_tracing`.
//! 10. Details of the delivery reach the handler as task data: [`Deliveries`].

mod ack_layer;
mod acknowledge;
mod backend;
mod board;
mod config;
mod consumer;
mod control;
mod entry;
mod fetch;
mod keep_alive;
mod loops;
mod take_over;

pub use ack_layer::{AckLayer, AckService};
pub use backend::{RedisStream, spawn};
pub use config::{Config, MAX_CONCURRENCY};
pub(crate) use consumer::unique_name;
pub use control::{Activity, QueueControl, Wish};
pub use entry::{Dead, DeadReason, Deliveries};
