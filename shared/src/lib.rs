//! The domain, used by the api and the worker: records, their rules, their SQL, the use-cases that change them, and the
//! write side of the queues.
//!
//! # Modules
//!
//! Modules are named after the domain. They form floors: a module imports only from lower floors;
//! `tests/rooms.rs` holds them to it.
//!
//! ```text
//! operate                                         what operators look at and do
//! catalog  partner  shipping  warehouse  webhook  the domain
//! account                                         organisations and their e-shops, people, tokens, the audit
//! job                                             recorded work, in chunks
//! record                                          records that are edited by a body of fields
//! list                                            the language of lists, and the fields of each resource
//! platform                                        database, queues, callers, problems, input, changes, clock, ids
//! ```
//!
//! # Guarantees
//!
//! *Postgres is the record, Redis is the belt.* A use-case opens one transaction, or runs one statement, that holds the
//! change, its audit record, its event with the deliveries, its job and its idempotent answer: together or not at all.
//! Only after the commit are ids handed to Redis, and losing them there costs a second, never a job.
//!
//! # Adding a resource
//!
//! One file: its record, its rules, its SQL, its use-cases, in that reading order; a migration of its own; a table of
//! fields in [`list::fields`]; routes of the same name in the `api`. `CONTRIBUTING.md` has the walk-through.

pub mod account;
pub mod catalog;
pub mod job;
pub mod list;
pub mod operate;
pub mod partner;
pub mod platform;
pub mod record;
pub mod shipping;
pub mod warehouse;
pub mod webhook;
