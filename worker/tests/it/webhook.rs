//! Webhooks: from an event in Postgres to a request at its destination.

mod attempts;
mod batch;
mod breaker;
mod fairness;
mod lanes;
mod lease;
mod lifecycle;
mod limits;
mod order;
mod rate;
mod restored;
mod retention;
mod rotation;
mod statistics;
pub mod support;
mod trial;
mod verifiers;
mod warm;
