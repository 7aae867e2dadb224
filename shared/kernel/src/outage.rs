//! Something that we stand on is away: told once when it goes, and once when it is back, however many notice.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Whether something is away, as those who use it see it. Each of them has a name of its own (`U`) and tells how its last
/// use went: so one that fails is not taken for well because another one succeeds.
#[derive(Debug)]
pub struct Outage<U>(Mutex<BTreeSet<U>>);

impl<U> Default for Outage<U> {
    fn default() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }
}

impl<U: Ord> Outage<U> {
    /// A use failed; answers whether the outage begins with it.
    pub fn failed(&self, user: U) -> bool {
        let mut failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = failing.is_empty();
        failing.insert(user);
        begins
    }

    /// A use succeeded; answers whether the outage ends with it.
    pub fn succeeded(&self, user: &U) -> bool {
        let mut failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failing.remove(user) && failing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_with_the_first_who_fails_and_ends_with_the_last_who_succeeds() {
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
