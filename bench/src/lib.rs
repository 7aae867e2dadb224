//! Fakes of external systems over real HTTP, and load that measures the service.
//!
//! Nothing here is part of the product. The modules:
//!
//! - [`receiver`]: an e-shop that receives webhooks, answers as instructed, and records requests;
//! - [`baselinker`]: a partner's system that enforces its limit, and misbehaves on request;
//! - [`signature`]: the check of a webhook's signature, by a library that is not ours;
//! - [`api`] and [`client`]: clients of the service; [`catalogue`]: a catalogue to sync;
//! - [`services`] and [`world`]: the service's own use-cases on a database, and a small tenant created with
//!   them;
//! - [`little_redis`]: a Redis that a test can fill up;
//! - [`stack`]: the whole service as processes that can be killed, on ports from [`port`];
//! - [`proof`]: checks that no change is lost when a worker dies and Redis is emptied; [`chaos`]: the same
//!   for every kind of fault; [`measure`]: performance, with [`bare`] as the floor of measurements over HTTP;
//!   [`explain`]: query plans;
//! - [`command`]: the command line of `longshore-bench`, with which `./dev` uses all of these.

pub mod api;
pub mod bare;
pub mod baselinker;
pub mod catalogue;
pub mod chaos;
pub mod client;
pub mod command;
pub mod explain;
pub mod little_redis;
pub mod measure;
pub mod port;
pub mod proof;
pub mod receiver;
pub mod s3;
pub mod services;
pub mod signature;
pub mod stack;
pub mod world;
