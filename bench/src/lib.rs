//! Load that measures the service, and faults that it must survive.
//!
//! Nothing here is part of the product; the fake outside world and the service as processes are
//! [`longshore_testkit`], the client and the catalogue [`longshore_demo`]. The modules, each of which imports only from earlier
//! ones:
//!
//! - [`bare`]: the floor of measurements over HTTP; [`explain`]: query plans; [`count`]: instructions of Postgres; [`measure`]: performance;
//! - [`chaos`]: the proof for every kind of fault;
//! - [`command`]: the command line of `longshore-bench`, with which `./dev` uses all of these.

pub mod bare;
pub mod chaos;
pub mod command;
pub mod count;
pub mod explain;
pub mod measure;
