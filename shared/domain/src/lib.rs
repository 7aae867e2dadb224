//! The domain: records, their rules, their SQL, the use-cases that change them, and the jobs that are recorded.
//!
//! # Modules
//!
//! Modules are named after the business. They form floors, and a module imports only from lower floors;
//! `xtask/tests/rooms.rs` checks it.
//!
//! ```text
//! attention                                       what is wrong with the service, in sentences
//! standing                                        the state of the queues, their pauses, the backlog
//! expedition                                      orders, and the stock that is booked for them
//! catalog  partner  shipping  warehouse  webhook  the business
//! account                                         organisations and their e-shops, people, tokens, the audit
//! calling                                         what calls of webhooks and calls of warehouse systems have in common
//! job                                             recorded work, in chunks
//! record                                          records that are edited by a body of fields
//! list                                            the language of lists, and the fields of each resource
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
//! One file: its record, its rules, its SQL, its use-cases, in that reading order; its own file of migrations; a table of fields in
//! [`list::fields`]; routes of the same name in the `api`. `CONTRIBUTING.md` has the walk-through.

pub mod account;
pub mod attention;
pub mod calling;
pub mod catalog;
pub mod expedition;
pub mod job;
pub mod list;
pub mod partner;
pub mod record;
pub mod shipping;
pub mod standing;
pub mod warehouse;
pub mod webhook;
