//! Load that measures the service, and faults that it must survive.
//!
//! Nothing here is part of the product; the fake outside world and the service as processes are
//! [`longshore_testkit`]. The modules, each of which imports only from earlier ones:
//!
//! - [`api`]: a client of the service; [`catalogue`]: a catalogue to sync; [`site`]: an e-shop of its own;
//! - [`proof`]: checks that no change is lost when a worker dies and Redis is emptied;
//! - [`bare`]: the floor of measurements over HTTP; [`explain`]: query plans; [`measure`]: performance;
//! - [`chaos`]: the proof for every kind of fault;
//! - [`command`]: the command line of `longshore-bench`, with which `./dev` uses all of these.

pub mod api;
pub mod bare;
pub mod catalogue;
pub mod chaos;
pub mod command;
pub mod explain;
pub mod measure;
pub mod orders;
pub mod proof;
pub mod site;
