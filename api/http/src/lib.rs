//! What every page and operation of the api is served with, below those who serve: extractors, layers, limits.
//!
//! - [`app`] has the parts of a running process.
//! - [`extract`] reads requests, and refuses what is not valid.
//! - [`intake`] takes the rows of syncs in, in every form.
//! - [`middleware`] gives each request its id, its log line, and every error its one shape; it holds callers to the limits.
//! - [`limits`] has the limits of one caller: rate, streams, time, bytes.
//! - [`paths`] has the paths of the service, for what is said of others.
//! - [`download`] makes files of answers.
//! - [`fixed`] serves what does not change while the process runs.

pub mod app;
pub mod download;
pub mod extract;
pub mod fixed;
pub mod intake;
pub mod limits;
pub mod middleware;
pub mod paths;
