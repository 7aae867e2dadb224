//! The kernel: what serves every module, and imports nothing else of ours.
//!
//! | for | modules |
//! | --- | --- |
//! | callers and their requests | [`access`], [`context`], [`idempotency`], [`precondition`], [`proxy`], [`origin`], [`refusals`] |
//! | input | [`input`], [`json`], [`csv`], [`encoding`], [`unfold`], [`echo`], [`amount`], [`country`], [`currency`] |
//! | answers | [`answer`], [`problem`], [`refused`], [`cause`] |
//! | records and their changes | [`change`], [`ids`], [`word`], [`noun`], [`tombstone`], [`cursor`], [`figure`] |
//! | Postgres | [`database`], [`pools`], [`pool`], [`pooler`], [`gather`], [`sqlstate`], [`migration`], [`history`], [`horizon`], [`statistics`], [`skew`], [`pulse`], [`set_back`] |
//! | Redis and the store of objects | [`redis_server`], [`queue`], [`hold`], [`objects`] |
//! | shares and limits | [`share`], [`rate`], [`quota`] |
//! | outbound calls and secrets | [`destination`], [`address`], [`authentication`], [`crypto`], [`resealing`] |
//! | a process | [`config`], [`manual`], [`services`], [`clock`], [`retry`], [`rest`], [`watch`], [`outage`], [`readiness`] |
//! | what operators see | [`telemetry`], [`trace`], [`metrics`], [`activity`], [`seldom`] |

pub mod access;
pub mod activity;
pub mod address;
pub mod amount;
pub mod answer;
pub mod authentication;
pub mod cause;
pub mod change;
pub mod clock;
pub mod config;
pub mod context;
pub mod country;
pub mod crypto;
pub mod csv;
pub mod currency;
pub mod cursor;
pub mod database;
pub mod destination;
pub mod echo;
pub mod encoding;
pub mod figure;
pub mod gather;
pub mod history;
pub mod hold;
pub mod horizon;
pub mod idempotency;
pub mod ids;
pub mod input;
pub mod iso8601;
pub mod json;
pub mod manual;
pub mod metrics;
pub mod migration;
pub mod noun;
pub mod objects;
pub mod origin;
pub mod outage;
pub mod pool;
pub mod pooler;
pub mod pools;
pub mod postgres_server;
pub mod precondition;
pub mod problem;
pub mod proxy;
pub mod pulse;
pub mod queue;
pub mod quota;
pub mod rate;
pub mod readiness;
pub mod redis_server;
pub mod refusals;
pub mod refused;
pub mod resealing;
pub mod rest;
pub mod retry;
pub mod seldom;
pub mod services;
pub mod set_back;
pub mod share;
pub mod skew;
pub mod sqlstate;
pub mod standby;
pub mod statistics;
pub mod telemetry;
pub mod tombstone;
pub mod trace;
pub mod unfold;
pub mod watch;
pub mod word;
