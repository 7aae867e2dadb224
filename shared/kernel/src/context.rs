//! The actor and the origin of a change, which every use-case passes to the audit.

use super::idempotency::KeyClaim;
use crate::access::{Actor, Caller, Scope};
use crate::ids::JobId;

/// The origin of a change.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The actor.
    pub actor: Actor,
    /// The request that asked for it.
    pub request_id: Option<String>,
    /// The job that executes it.
    pub job: Option<JobId>,
    /// W3C trace context of the request.
    pub traceparent: Option<String>,
}

impl Origin {
    /// A change by the command line of the service.
    #[must_use]
    pub fn command_line() -> Self {
        Self {
            actor: Actor { kind: "command_line".to_owned(), id: None, name: "longshore-api".to_owned() },
            request_id: None,
            job: None,
            traceparent: None,
        }
    }

    /// A change by the service itself, in the name of the part that makes it.
    #[must_use]
    pub fn schedule(name: &str) -> Self {
        Self {
            actor: Actor { kind: "schedule".to_owned(), id: None, name: name.to_owned() },
            request_id: None,
            job: None,
            traceparent: None,
        }
    }
}

/// An authorised request: the caller, the origin of its changes, and its claim on an idempotency key.
#[derive(Clone, Debug)]
pub struct Context {
    /// The caller.
    pub caller: Caller,
    /// What goes into the audit.
    pub origin: Origin,
    /// The claimed idempotency key: the answer is recorded with the change.
    pub claim: Option<KeyClaim>,
}

impl Context {
    /// Whose records may be seen and changed.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.caller.scope
    }
}
