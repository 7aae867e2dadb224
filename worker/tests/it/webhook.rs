//! Webhooks: from an event in Postgres to a request at its destination.

mod attempts;
mod breaker;
mod lanes;
mod lifecycle;
mod retention;
pub mod support;
mod verifiers;
