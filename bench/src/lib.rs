//! The outside world, faked over real HTTP, and the load that measures the service.
//!
//! Nothing here is part of the product: it is what stands around it. Who takes part:
//!
//! - [`receiver`]: an e-shop that takes webhooks, answers as it was told to, and remembers what came;
//! - [`baselinker`]: a partner's system that keeps to its limit, and misbehaves when it is told to;
//! - [`signature`]: the check of a webhook's signature, by a library that is not ours;
//! - [`api`], by [`client`]: the service as its clients see it; [`catalogue`]: what a partner syncs;
//! - [`services`] and [`world`]: the service's own use-cases over a database, and a small tenant made by them;
//! - [`little_redis`]: a Redis that a test can fill up;
//! - [`stack`]: the whole service as processes that can be killed, on ports from [`port`];
//! - [`proof`]: that no change is lost when a worker dies and Redis is emptied; [`chaos`]: that none is, whatever breaks;
//!   [`measure`]: how fast it all is, with [`bare`] as the floor of what goes by HTTP; [`explain`]: how Postgres plans what
//!   the service asks it;
//! - [`command`]: the command line of `longshore-bench`, by which `./dev` uses all of these.

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
