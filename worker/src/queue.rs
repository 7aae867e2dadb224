//! The read side of the queues: an [`apalis`] backend over Redis Streams. The write side is
//! [`longshore_shared::platform::queue`].
//!
//! # What it guarantees
//!
//! - An entry that was put on a queue reaches a handler at least once, whatever happens to workers, connections or
//!   the server in between, as long as Redis keeps the entry; if Redis loses it, the dispatcher finds the work in
//!   Postgres. Twice is possible (a kill between end and acknowledgement): handlers claim their row.
//! - A handler's result, whatever it is, ends the entry: the row in Postgres decides about another attempt. Only
//!   apalis' `RetryAfterError` and `DeferredError` bring the same entry back, within the visibility.
//! - What runs is never stolen while its process lives, and taken over when it is silent for [`Config::visibility`].
//! - A task that kills its process is put aside after [`Config::max_deliveries`], with a warning in the log; its
//!   neighbours are not condemned with it. The registry asks for no more: a chunk counts such deaths in its row, and
//!   what is still due is put on the queue again. Who must know of it registers [`RedisStream::on_dead`], as the tests do.
//! - No error of Redis ends the worker or drops what runs.
//! - Before a handler starts, the marker of its id is gone, so what becomes due meanwhile is put on again.
//!
//! # Who takes part
//!
//! ```text
//!            read, take over        pop             call             report
//!   Redis ───────────────────▶ board ────▶ backend ──────▶ ack layer ──────▶ acknowledge ──▶ Redis
//!            (fetch, take_over)               (apalis: layers, handler)      XDEL, XACK
//!                                keep_alive: XCLAIM of all that is held; silent consumers; stop and pause
//! ```
//!
//! One consumer ([`RedisStream`]) runs three loops: `fetch` on a connection of its own, since it blocks;
//! `acknowledge` and `keep_alive` on the shared one. The `board` is what they share: what waits, how many run, and
//! everything this process answers for. [`QueueControl`] is the owner's handle: pause, concurrency, activity, end.
//!
//! # How a worker is assembled
//!
//! Layers are listed from the outside in. This order follows from ten traps of the backend API, noted below.
//!
//! ```
//! use std::time::Duration;
//! use apalis::prelude::{Data, Monitor, ParallelizeExt, WorkerBuilder, WorkerBuilderExt};
//! use longshore_shared::platform::queue::{Queue, Queues};
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
//! 1. An `Err` from the backend's polls ends the worker and drops what runs: none is ever returned here.
//! 2. The backend is not told of a shutdown while tasks drain, and with a `shutdown_timeout` it is simply dropped:
//!    a timer looks for the shutdown, `Drop` closes, and `main` waits for [`QueueControl::closed`].
//! 3. apalis fixes the concurrency when the worker is built. The live limit is the board's; the layer only holds the
//!    ceiling, [`MAX_CONCURRENCY`].
//! 4. A panic that leaves the service drops all running neighbours: the ack layer catches it, with or without
//!    `catch_panic`. A handler that panics before it has returned its future is counted by apalis as running for
//!    ever, and a graceful stop then waits for its time limit: handlers are `async fn`s, which cannot.
//! 5. `Kind = Durable` turns a decoding error into the end of the worker: the kind is `Ephemeral`, and ids are
//!    parsed in `poll_next`.
//! 6. Two running tasks of one id panic under the feature `task-context`: the task's id is the entry's, and what is
//!    held is filtered from what is read.
//! 7. Everything runs on one tokio task unless `parallelize` comes in, and a plain `tokio::spawn` there detaches a
//!    task from the worker: after a time-out or a stop it would run on. [`spawn`] aborts it. Listed first, it takes
//!    the layers after it, and so the time-out, into the spawned task.
//! 8. `Monitor` calls the factory again after a failure and is synchronous: nothing connects in a constructor, and
//!    one [`QueueControl`] serves every stream that the factory makes.
//! 9. The backend's own layer lies outside of all others and sees the final result; `timeout` goes before
//!    `enable_tracing`.
//! 10. What the handler should know of the delivery travels as task data: [`Deliveries`].

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
mod take_over;

pub use ack_layer::{AckLayer, AckService};
pub use backend::{RedisStream, spawn};
pub use config::{Config, MAX_CONCURRENCY};
pub use control::{Activity, QueueControl, Wish};
pub use entry::{Dead, DeadReason, Deliveries};
