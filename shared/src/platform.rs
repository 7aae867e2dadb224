//! What serves every room: settings, database, problems, reading of input, clock, ids, secrets, telemetry, metrics, tombstones.

pub mod activity;
pub mod address;
pub mod answer;
pub mod authentication;
pub mod change;
pub mod clock;
pub mod config;
pub mod context;
pub mod country;
pub mod crypto;
pub mod database;
pub mod destination;
pub mod history;
pub mod idempotency;
pub mod ids;
pub mod input;
pub mod metrics;
pub mod objects;
pub mod problem;
pub mod proxy;
pub mod rate;
pub mod record;
pub mod retry;
pub mod services;
pub mod telemetry;
pub mod tombstone;
