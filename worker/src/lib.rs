//! The worker pool: executes recorded jobs and delivers webhooks.
//!
//! - [`queue`] reads the ids of due work: an `apalis` backend over Redis Streams.
//! - [`registry`] lists the queues with their handlers and limits.
//! - [`jobs`] has the bodies, one file each; their payloads and SQL are in `longshore-domain`.
//! - [`lanes`] delivers webhooks: a turn sends what one of them has due.
//! - [`outbound`] is the guarded HTTP client that makes all outbound calls.
//! - [`partner`] has the partners: what the worker reads from them and sends to them.
//! - [`places`] decides which turns may run, so that no organisation takes all of them.
//! - [`dispatcher`] finds due work in Postgres that is not on a queue.
//! - [`allocation`] books waiting orders, and takes back what stocks no longer cover.
//! - [`statistics`] keeps the table statistics of Postgres up to date.
//! - [`beat`] says every few seconds what this worker is at.
//! - [`isolation`] executes work that may have killed its process in a separate process.
//! - [`context`] is passed to every handler; [`leases`] keeps its claims alive.
//!
//! To add a job: a kind in `shared/domain/src/job/kind.rs`, a body under [`jobs`], a line in [`jobs::chunk`].

pub mod allocation;
pub mod beat;
pub mod command;
pub mod context;
pub mod dispatcher;
pub mod handover;
pub mod health;
pub mod isolation;
pub mod jobs;
pub mod lanes;
pub mod leases;
pub mod outbound;
pub mod partner;
pub mod places;
pub mod pulse;
pub mod queue;
pub mod registry;
pub mod statistics;
