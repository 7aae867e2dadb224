//! Demo data, and the demo: what `./dev up` and `./dev demo` run, and what measurements and chaos begin with.
//!
//! Nothing here is part of the product; the fake outside world and the service as processes are
//! [`longshore_testkit`]. The modules, each of which imports only from earlier ones:
//!
//! - [`api`]: a client of the service; [`catalogue`], [`orders`]: what is synced and ordered; [`site`]: an e-shop of its own;
//! - [`proof`]: checks that no change is lost when a worker dies and Redis is emptied;
//! - [`command`]: the command line of `longshore-demo`.

pub mod api;
pub mod catalogue;
pub mod command;
pub mod orders;
pub mod proof;
pub mod site;
