//! Webhooks: from an event in Postgres to a request at its destination.

mod attempts;
mod breaker;
mod lanes;
mod lease;
mod lifecycle;
mod retention;
pub mod support;
mod verifiers;
