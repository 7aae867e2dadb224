//! The least that something costs by HTTP: the same libraries over the same Postgres and Redis, and none of the service
//! around them. Each is a process of its own, which the measurements start (`longshore-bench bare`).

pub mod chain;
pub mod look_up;
