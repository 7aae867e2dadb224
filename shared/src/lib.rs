//! The domain, used by the api and the worker: records, their rules, their SQL, the use-cases that change them, and the
//! write side of the queues.
//!
//! # Modules
//!
//! Modules are named after the domain, and stand on floors. A module imports only from below, and never from its own floor;
//! `tests/rooms.rs` holds them to it, and names the few imports that still go up.
//!
//! ```text
//! operate                                         what whoever runs the service looks at and does
//! catalog  partner  shipping  warehouse  webhook  the domain
//! account                                         who has access, and whose everything is
//! job                                             recorded work, in chunks
//! record                                          what is edited by a body of fields
//! list                                            the language of lists, and the tables of what records show
//! platform                                        database, queues, who calls, problems, input, changes, clock, ids
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
