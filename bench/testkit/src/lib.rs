//! Fakes of external systems over real HTTP, and the service as processes, for tests and measurements.
//!
//! Nothing here is part of the product. The modules, each of which imports only from earlier ones:
//!
//! - [`port`], [`process`], [`program`], [`manager`], [`client`]: free ports, child processes that end with
//!   their owner, programs that a test runs to their end, what a service manager hears, and clients outside
//!   the service;
//! - [`receiver`]: an e-shop that receives webhooks, answers as instructed, and records requests;
//!   [`signature`]: the check of a webhook's signature, by a library that is not ours;
//! - [`wms`]: the system of a warehouse, which takes orders, keeps a book of them, and reports back;
//! - [`baselinker`]: a partner's system that enforces its limit, and misbehaves on request;
//! - [`s3`] and [`little_redis`]: an object store, and a Redis that a test can fill up;
//! - [`services`] and [`world`]: the service's own use-cases on a database, and a small tenant created with
//!   them;
//! - [`stack`]: the whole service as processes that can be killed.

pub mod baselinker;
pub mod client;
pub mod little_redis;
pub mod manager;
pub mod port;
pub mod process;
pub mod program;
pub mod receiver;
pub mod s3;
pub mod services;
pub mod signature;
pub mod stack;
pub mod wms;
pub mod world;
