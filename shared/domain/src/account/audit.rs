//! The audit: who changed what, and when (`docs/reference/accounts.md#audit`).
//!
//! Records are written by [`record_change!`](longshore_kernel::record_change), in the statement of the change, and never altered: the
//! service's role may only insert and select, and a trigger refuses the rest. Here they are read.

pub mod search;
