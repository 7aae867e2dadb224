//! Tests of the HTTP layer against real Postgres and Redis.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]
#![expect(unreachable_pub, reason = "the support is shared by the modules of this one binary")]

mod account;
mod attention;
mod audit;
mod catalog;
mod command;
mod console;
mod corpus;
mod csv;
mod deprecated;
mod doctor;
mod edit;
mod errors;
mod expedition;
mod full_redis;
mod hostile;
mod http;
mod image;
mod job;
mod links;
mod list;
mod manager;
mod metrics;
mod migrate;
mod openapi;
mod product;
mod pull;
mod queue;
mod quota;
mod reader;
mod setting;
mod share;
mod shipping;
mod standby;
mod stock_advice;
mod support;
mod sync;
mod trace;
mod warehouse;
mod webhook;
mod wms_setting;
