//! The one home of the current time.
//!
//! Due times and leases follow the clock of Postgres (`docs/reference/deliveries.md#retries`). This one serves what stays
//! inside a process: signatures, expiry of caches, durations in logs. It is passed in, so that a test can move it.

use std::sync::Arc;

use chrono::{DateTime, Utc};

/// The current time; cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>);

impl Clock {
    /// The clock of this machine.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one home of the clock")]
    pub fn system() -> Self {
        Self(Arc::new(Utc::now))
    }

    /// A clock that a test moves.
    pub fn from_fn(now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The current moment.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}
