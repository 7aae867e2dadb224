//! Counts that are kept in memory until they are written.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::mem::take;
use std::sync::{Mutex, PoisonError};

use crate::problem::Problem;

/// What can be counted up.
pub(super) trait Tally: Clone + Default {
    /// Adds more of it.
    fn add(&mut self, more: Self);
}

impl Tally for i64 {
    fn add(&mut self, more: Self) {
        *self += more;
    }
}

/// Counts by key.
#[derive(Debug)]
pub(super) struct Pending<K, V>(Mutex<BTreeMap<K, V>>);

impl<K, V> Default for Pending<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Ord, V: Tally> Pending<K, V> {
    pub(super) fn add(&self, key: K, more: V) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().add(more);
    }

    /// What was counted, in the order of the keys; it begins again with nothing.
    pub(super) fn take(&self) -> Vec<(K, V)> {
        take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_iter().collect()
    }

    /// Writes what was counted, if anything was. What cannot be written is kept for the next time.
    pub(super) async fn write<F: Future<Output = Result<(), sqlx::Error>>>(
        &self,
        write: impl FnOnce(Vec<(K, V)>) -> F,
    ) -> Result<(), Problem> {
        let counted = self.take();
        if counted.is_empty() {
            return Ok(());
        }
        if let Err(error) = write(counted.clone()).await {
            for (key, count) in counted {
                self.add(key, count);
            }
            return Err(error.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_cannot_be_written_is_written_with_what_comes_later() {
        let pending = Pending::default();
        pending.add("a", 2);
        let refused = pending.write(|_| async { Err(sqlx::Error::PoolClosed) }).await;
        assert!(refused.is_err());
        pending.add("b", 1);
        pending.add("a", 3);
        let mut written = Vec::new();
        let write = |counted| {
            written = counted;
            async { Ok(()) }
        };
        pending.write(write).await.unwrap();
        assert_eq!(written, [("a", 5), ("b", 1)]);
        pending.write(|_| async { panic!("there is nothing to write") }).await.unwrap();
    }
}
