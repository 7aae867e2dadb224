//! The worker pool: executes recorded jobs and delivers webhooks.
//!
//! - [`queue`] brings names of what is due: an `apalis` backend over Redis Streams.
//! - [`registry`] is the list of what is worked on: a queue, its handler, its limits.
//! - [`jobs`] holds the bodies, one file each; their payloads and SQL are in `longshore-shared`.
//! - [`outbound`] is the guarded HTTP client, the only way out.
//! - [`partner`] holds the partners: what the worker reads of them, and tells them.
//! - [`dispatcher`] finds in Postgres what the queues do not know of.
//! - [`context`] is what every handler is given; [`leases`] keeps its claims alive.
//!
//! To add a job: a kind in `shared/src/job/kind.rs`, a body under [`jobs`], a line in [`jobs::chunk`].

pub mod command;
pub mod context;
pub mod dispatcher;
pub mod health;
pub mod jobs;
pub mod leases;
pub mod outbound;
pub mod partner;
pub mod queue;
pub mod registry;
