//! Who caused a change, and in the course of what: it goes with every use-case into the audit.

use uuid::Uuid;

use super::idempotency::Claim;
use crate::access::{Actor, Caller, Scope};

/// Whence a change comes.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Who acts.
    pub actor: Actor,
    /// The request that asked for it.
    pub request_id: Option<String>,
    /// The job that executes it.
    pub job: Option<Uuid>,
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
}

/// A request that has been let in: who calls, whence its changes come, and its claim to an idempotency key.
#[derive(Clone, Debug)]
pub struct Context {
    /// Who calls.
    pub caller: Caller,
    /// What goes into the audit.
    pub origin: Origin,
    /// The claimed idempotency key: the answer is recorded with the change.
    pub claim: Option<Claim>,
}

impl Context {
    /// Whose records may be seen and changed.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.caller.scope
    }
}
