//! The domain, as the api and the worker know it: one name for the three crates below, each of which imports only from
//! lower ones.
//!
//! ```text
//! operate                                         what operators look at and do
//! catalog  partner  shipping  warehouse  webhook  ┐
//! account  calling                                │
//! job                                             ├ domain: the records, their rules, their SQL
//! record                                          │
//! list                                            ┘
//! kernel                                          what serves them all
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
//! One file: its record, its rules, its SQL, its use-cases, in that reading order; its own migration; a table of fields in
//! [`list::fields`]; routes of the same name in the `api`. `CONTRIBUTING.md` has the walk-through.

pub use longshore_domain::{
    account, calling, catalog, expedition, job, list, partner, record, shipping, warehouse, webhook,
};
pub use longshore_kernel as kernel;
pub use longshore_operate as operate;
