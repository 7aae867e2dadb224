//! Outages of a dependency: when a silent connection to it ends; logged once when it fails and once when it is back, regardless of how
//! many callers notice.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// After so long without an acknowledgement the kernel ends a connection. Otherwise it goes on sending for a quarter of an hour.
pub(super) const UNACKNOWLEDGED: Duration = Duration::from_secs(5);

/// Whether a dependency is unavailable, as seen by its users. Each use has its own name (`U`) and reports its last result, so
/// that a failing use does not count as recovered because another one succeeds.
#[derive(Debug)]
pub struct Outage<U>(Mutex<BTreeSet<U>>);

impl<U> Default for Outage<U> {
    fn default() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }
}

impl<U: Ord> Outage<U> {
    /// A use failed; returns whether an outage begins.
    pub fn failed(&self, user: U) -> bool {
        let mut failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = failing.is_empty();
        failing.insert(user);
        begins
    }

    /// A use succeeded; returns whether the outage ends.
    pub fn succeeded(&self, user: &U) -> bool {
        let mut failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failing.remove(user) && failing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_with_the_first_failure_and_ends_when_all_uses_succeed() {
        let outage = Outage::default();
        assert!(!outage.succeeded(&"reader"), "it was never away");
        assert!(outage.failed("reader"));
        assert!(!outage.failed("reader"));
        assert!(!outage.failed("writer"));
        assert!(!outage.succeeded(&"another"), "who never failed proves nothing to the others");
        assert!(!outage.succeeded(&"reader"));
        assert!(!outage.failed("reader"), "the writer has not come back in between");
        assert!(!outage.succeeded(&"writer"));
        assert!(outage.succeeded(&"reader"));
        assert!(!outage.succeeded(&"reader"));
        assert!(outage.failed("writer"));
    }
}
