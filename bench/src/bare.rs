//! The floors of measurements over HTTP: the same libraries with the same Postgres and Redis, without the
//! service around them. Each is a separate process, which the measurements start (`longshore-bench bare`).

pub mod chain;
pub mod look_up;
