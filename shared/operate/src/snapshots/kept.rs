//! Readings that several pages share for a few seconds.
//!
//! One caller reads, and others who come meanwhile wait for what that finds. A reading goes on when its caller leaves. A page does
//! not wait for one as long as there is another that is not old: it shows that, and the next page shows the new one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures::future::BoxFuture;
use longshore_kernel::access::Scope;
use longshore_kernel::clock::Clock;
use longshore_kernel::problem::Problem;
use longshore_kernel::share::{self, Asker};

/// A younger reading is shown while the next is read.
const SHOWN: TimeDelta = TimeDelta::seconds(20);
/// How long a page waits for a reading.
const PATIENCE: Duration = Duration::from_secs(1);
/// Scopes whose readings are kept: those that were read last.
const SCOPES: usize = 1_000;

#[derive(Debug)]
struct Reading<T> {
    at: DateTime<Utc>,
    /// How often it had changed by then.
    changes: u64,
    value: Arc<T>,
}

/// The last reading of something.
#[derive(Debug)]
pub(super) struct Kept<T> {
    last: Mutex<Option<Reading<T>>>,
    /// One reads at a time.
    turn: tokio::sync::Mutex<()>,
    /// How often what it is about has changed, as far as this process knows.
    changes: AtomicU64,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { last: Mutex::default(), turn: tokio::sync::Mutex::default(), changes: AtomicU64::default() }
    }
}

impl<T> Kept<T> {
    /// A reading that is younger than this: the last one, else a new one.
    pub(super) async fn read<F: Future<Output = Result<T, Problem>>>(
        &self,
        clock: &Clock,
        age: TimeDelta,
        read: impl FnOnce() -> F,
    ) -> Result<Arc<T>, Problem> {
        let asked = clock.now();
        let _turn = share::patiently("turns to read", self.turn.lock()).await?;
        let at = clock.now();
        // another caller may have begun to read meanwhile: what that found serves all who waited, however long it took
        if let Some(last) = self.younger(clock, age.max(at - asked)) {
            return Ok(last);
        }
        let changes = self.changes.load(Ordering::SeqCst);
        let value = Arc::new(read().await?);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Reading { at, changes, value: Arc::clone(&value) });
        Ok(value)
    }

    /// It has changed: the last reading is not shown any more while there can be another.
    pub(super) fn outdate(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    fn last(&self) -> Option<Arc<T>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(|reading| Arc::clone(&reading.value))
    }

    fn younger(&self, clock: &Clock, than: TimeDelta) -> Option<Arc<T>> {
        let changes = self.changes.load(Ordering::SeqCst);
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_young = |reading: &&Reading<T>| reading.changes == changes && clock.now() - reading.at < than;
        last.as_ref().filter(is_young).map(|reading| Arc::clone(&reading.value))
    }
}

/// The last readings of each scope.
#[derive(Debug)]
pub(super) struct ByScope<T>(Mutex<HashMap<Scope, Arc<Kept<T>>>>);

impl<T> Default for ByScope<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Send + Sync + 'static> ByScope<T> {
    /// A reading of a scope: one that is younger than this, or is not old while `read` makes the next; else the one that `read` makes,
    /// for which a page waits for a second; else the last one.
    pub(super) async fn get(
        &self,
        clock: &Clock,
        scope: &Scope,
        age: TimeDelta,
        read: impl FnOnce() -> BoxFuture<'static, Result<T, Problem>>,
    ) -> Option<Arc<T>> {
        let kept = self.kept(scope);
        if let Some(fresh) = kept.younger(clock, age) {
            return Some(fresh);
        }
        let shown = kept.younger(clock, SHOWN);
        // one reads already
        if shown.is_some() && kept.turn.try_lock().is_err() {
            return shown;
        }
        let read = read();
        let reading = tokio::spawn({
            let (kept, clock) = (Arc::clone(&kept), clock.clone());
            // with the share of the one who asks, whose own waits are not longer for it
            let asker = Asker::default();
            if let Some(current) = Asker::current() {
                asker.is(current.who());
            }
            share::as_asker(asker, async move {
                if let Err(error) = kept.read(&clock, age, || read).await {
                    tracing::debug!(%error, "cannot read for the pages yet");
                }
            })
        });
        if shown.is_some() {
            return shown;
        }
        // what is old is better than nothing
        let _ = tokio::time::timeout(PATIENCE, reading).await;
        kept.last()
    }

    /// A reading of a scope that is younger than this: the last one, else the one that `read` makes.
    pub(super) async fn read<F: Future<Output = Result<T, Problem>>>(
        &self,
        clock: &Clock,
        scope: &Scope,
        age: TimeDelta,
        read: impl FnOnce() -> F,
    ) -> Result<Arc<T>, Problem> {
        self.kept(scope).read(clock, age, read).await
    }

    /// The last reading of a scope.
    #[must_use]
    pub(super) fn last(&self, scope: &Scope) -> Option<Arc<T>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(scope)?.last()
    }

    /// The scope has changed: its last reading is not shown any more while there can be another.
    pub(super) fn outdate(&self, scope: &Scope) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = all.get(scope) {
            kept.outdate();
        }
    }

    fn kept(&self, scope: &Scope) -> Arc<Kept<T>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = all.get(scope) {
            return Arc::clone(kept);
        }
        if all.len() >= SCOPES {
            let read_at = |kept: &Kept<T>| {
                let last = kept.last.lock().unwrap_or_else(PoisonError::into_inner);
                last.as_ref().map(|reading| reading.at)
            };
            let oldest = all.iter().min_by_key(|(_, kept)| read_at(kept)).map(|(scope, _)| scope.clone());
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        Arc::clone(all.entry(scope.clone()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use futures::FutureExt as _;
    use longshore_kernel::ids::{EshopId, OrganisationId};

    use super::*;

    const AGE: TimeDelta = TimeDelta::seconds(5);

    /// A clock, and the seconds that it shows.
    fn clock() -> (Clock, Arc<AtomicI64>) {
        let seconds = Arc::new(AtomicI64::new(1_700_000_000));
        let shown = Arc::clone(&seconds);
        let now = move || DateTime::from_timestamp(shown.load(Ordering::SeqCst), 0).unwrap();
        (Clock::from_fn(now), seconds)
    }

    fn refused() -> Problem {
        Problem::not_found("database")
    }

    #[tokio::test]
    async fn a_reading_is_shared_until_it_is_old_and_by_those_of_its_scope_only() {
        let (clock, seconds) = clock();
        let all = ByScope::<u32>::default();
        let get = async |scope: &Scope, read: u32| {
            all.get(&clock, scope, AGE, || Box::pin(async move { Ok(read) })).await.map(|value| *value)
        };
        let other = Scope::Eshop { organisation: OrganisationId::nil(), eshop: EshopId::nil() };
        assert_eq!(get(&Scope::Everything, 1).await, Some(1));
        assert_eq!(get(&other, 7).await, Some(7));
        seconds.fetch_add(4, Ordering::SeqCst);
        assert_eq!(get(&Scope::Everything, 2).await, Some(1));
        assert_eq!(get(&other, 8).await, Some(7));
        // a page does not wait for the next one
        seconds.fetch_add(4, Ordering::SeqCst);
        let read = all.get(&clock, &Scope::Everything, AGE, || Box::pin(std::future::pending())).await;
        assert_eq!(read.as_deref(), Some(&1));
        assert_eq!(all.last(&other).as_deref(), Some(&7));
        seconds.fetch_add(60, Ordering::SeqCst);
        assert_eq!(get(&other, 9).await, Some(9));
    }

    #[tokio::test]
    async fn what_changed_is_read_again_at_once() {
        let (clock, _) = clock();
        let all = ByScope::<u32>::default();
        let get = async |read: Result<u32, Problem>| {
            all.get(&clock, &Scope::Everything, AGE, || Box::pin(async move { read }))
                .await
                .map(|value| *value)
        };
        assert_eq!(get(Ok(1)).await, Some(1));
        all.outdate(&Scope::Everything);
        // where that fails, the last one is better than nothing, and the next page tries again
        assert_eq!(get(Err(refused())).await, Some(1));
        assert_eq!(get(Ok(2)).await, Some(2));
        assert_eq!(get(Ok(3)).await, Some(2));
    }

    #[tokio::test]
    async fn all_who_wait_for_a_slow_reading_share_it() {
        let (clock, seconds) = clock();
        let kept = Kept::<u32>::default();
        let (begun, end) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
        let slow = kept.read(&clock, AGE, || async {
            begun.notify_one();
            end.notified().await;
            Ok(1)
        });
        let waits = async {
            begun.notified().await;
            let waiting = [2, 3].map(|read| kept.read(&clock, AGE, move || async move { Ok(read) }));
            let ends = async {
                seconds.fetch_add(60, Ordering::SeqCst);
                end.notify_one();
            };
            let ([second, third], ()) = tokio::join!(
                futures::future::join_all(waiting).map(|all| <[_; 2]>::try_from(all).unwrap()),
                ends
            );
            (second, third)
        };
        let (first, (second, third)) = tokio::join!(slow, waits);
        // they came after it began: they read again, and once
        assert_eq!([first, second, third].map(|read| *read.unwrap()), [1, 2, 2]);
    }

    #[tokio::test]
    async fn a_reading_that_nobody_waits_for_any_more_hides_no_change() {
        let (clock, _) = clock();
        let all = ByScope::<u32>::default();
        let read = async |read| {
            all.read(&clock, &Scope::Everything, AGE, || async move { Ok(read) }).await.map(|value| *value)
        };
        assert_eq!(read(1).await.unwrap(), 1);
        all.outdate(&Scope::Everything);
        let left = all.read(&clock, &Scope::Everything, AGE, std::future::pending);
        assert!(left.now_or_never().is_none());
        assert_eq!(read(2).await.unwrap(), 2);
        assert_eq!(read(3).await.unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_does_not_wait_for_long() {
        let (clock, seconds) = clock();
        let all = ByScope::<u32>::default();
        let slow =
            async || all.get(&clock, &Scope::Everything, AGE, || Box::pin(std::future::pending())).await;
        assert_eq!(slow().await, None);
        let all = ByScope::<u32>::default();
        let slow =
            async || all.get(&clock, &Scope::Everything, AGE, || Box::pin(std::future::pending())).await;
        assert!(all.get(&clock, &Scope::Everything, AGE, || Box::pin(async { Ok(1) })).await.is_some());
        seconds.fetch_add(3_600, Ordering::SeqCst);
        assert_eq!(slow().await.as_deref(), Some(&1), "what is old is better than nothing");
    }

    #[tokio::test]
    async fn the_scopes_that_were_read_last_are_kept() {
        let (clock, seconds) = clock();
        let all = ByScope::<usize>::default();
        let scope = |n: usize| {
            let eshop = uuid::Uuid::from_u128(n as u128).into();
            Scope::Eshop { organisation: OrganisationId::nil(), eshop }
        };
        for n in 0..=SCOPES {
            seconds.fetch_add(1, Ordering::SeqCst);
            all.get(&clock, &scope(n), AGE, || Box::pin(async move { Ok(n) })).await.unwrap();
        }
        assert_eq!(all.last(&scope(0)), None);
        assert_eq!(all.last(&scope(1)).as_deref(), Some(&1));
        assert_eq!(all.last(&scope(SCOPES)).as_deref(), Some(&SCOPES));
    }
}
