//! What calls of webhooks and calls of warehouse systems have in common.
//!
//! Each destination has a lane, and whoever leases it makes the calls, one worker at a time: they are signed with the secrets
//! that were read with the lease ([`signature`]), so a rotation of the secret fences the lease off ([`secret`]). A destination that
//! fails again and again is probed by one call at a time ([`breaker`]).

pub mod breaker;
mod lease;
pub(crate) mod secret;
pub mod signature;

pub(crate) use self::lease::renewal;
pub use self::lease::{LEASE, PostgresTime, Renewed};
