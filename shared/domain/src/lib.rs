//! The domain: records, their rules, their SQL, the use-cases that change them, and the jobs that are recorded.
//!
//! # Modules
//!
//! Modules are named after the business. They form floors, and a module imports only from lower floors;
//! `shared/tests/rooms.rs` checks it.
//!
//! ```text
//! expedition                                      orders, and the stock that is booked for them
//! catalog  partner  shipping  warehouse  webhook  the business
//! account                                         organisations and their e-shops, people, tokens, the audit
//! calling                                         what calls of webhooks and calls of warehouse systems have in common
//! job                                             recorded work, in chunks
//! record                                          records that are edited by a body of fields
//! list                                            the language of lists, and the fields of each resource
//! ```

pub mod account;
pub mod calling;
pub mod catalog;
pub mod expedition;
pub mod job;
pub mod list;
pub mod partner;
pub mod record;
pub mod shipping;
pub mod warehouse;
pub mod webhook;
