//! Private servers and child processes, for `./dev`, tests and measurements.
//!
//! Nothing here is part of the product. Everything blocks, and nothing needs a client library, so that the task runner
//! builds in seconds. The modules:
//!
//! - [`process`]: a child with a log, one that is restarted whenever it ends, and processes known by a pid file;
//! - [`postgres`] and [`redis`]: how such a server is set up, started, found ready and stopped;
//! - [`port`]: free ports;
//! - [`environment`]: the file that tells a shell what was started.
//!
//! Processes are ended by their id, never by their name.

pub mod environment;
pub mod port;
pub mod postgres;
pub mod process;
pub mod redis;
