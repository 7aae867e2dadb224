//! The processor time of a process, shared by all callers.
//!
//! A request runs in steps, from one wait to the next, on as many threads as there are processors and [`SPARE`] more. Most steps take
//! microseconds, but one that parses or compresses a large body takes milliseconds, and the steps of hundreds of such requests
//! would all run before that of anyone else. So a caller that used more than [`FREE`] of the last [`PERIOD`] is busy: its steps
//! take places first, of which there are fewer than threads. They wait for one in the order of all shares. A caller that is not
//! busy waits for nobody, and the system divides the processors among the threads.
//!
//! A request waits for its first place as long as it waits for any resource, and is then refused: before its first step, and again
//! once its caller is known. After that nothing is refused any more, because work may have been done; and its steps go before those
//! of requests that have not begun. So of more requests than can be answered in time, some are answered in time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::thread::available_parallelism;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Asker, Entry, Grant, Ledger, Refusal, Who};

/// The time that is looked at: what was used in the running period counts, and what was used in the one before.
const PERIOD: Duration = Duration::from_millis(100);

/// What a caller may use of it before its steps take places.
const FREE: Duration = Duration::from_millis(25);

/// Threads more than processors: one for the place that a single busy caller leaves to the next, and one for callers that are not busy.
const SPARE: usize = 2;

/// How many threads are to run requests.
#[must_use]
pub fn threads() -> usize {
    processors() + SPARE
}

fn processors() -> usize {
    available_parallelism().map_or(1, Into::into)
}

/// The processor time of a process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Pace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    places: Ledger,
    used: Mutex<Used>,
}

/// What was used, by organisation, or account without one; all callers without a token count as one.
#[derive(Debug)]
struct Used {
    begun: Instant,
    now: HashMap<Uuid, Duration>,
    before: HashMap<Uuid, Duration>,
}

impl Default for Pace {
    fn default() -> Self {
        Self::of(processors() as u64)
    }
}

impl Pace {
    /// A single busy caller may have all `processors`; then one place is left for the next.
    fn of(processors: u64) -> Self {
        let used = Used { begun: Instant::now(), now: HashMap::new(), before: HashMap::new() };
        let places = Ledger::new("processors", processors + 1, processors);
        Self(Arc::new(Inner { places, used: Mutex::new(used) }))
    }

    /// Whether the steps of a caller take places.
    pub(super) fn is_busy(&self, who: Who) -> bool {
        self.lock().is_busy(who.group)
    }

    /// The places of busy callers.
    #[must_use]
    pub fn places(&self) -> &Ledger {
        &self.0.places
    }

    /// Counts the time of a step.
    pub fn used(&self, who: Who, time: Duration) {
        *self.lock().now.entry(who.group).or_default() += time;
    }

    /// What was used until now.
    fn lock(&self) -> MutexGuard<'_, Used> {
        let mut used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.forget(Instant::now());
        used
    }
}

impl Used {
    fn forget(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.begun);
        if age >= PERIOD {
            self.before = std::mem::take(&mut self.now);
            self.begun = now;
        }
        if age >= PERIOD * 2 {
            self.before.clear();
        }
    }

    fn is_busy(&self, group: Uuid) -> bool {
        let of = |map: &HashMap<Uuid, Duration>| map.get(&group).copied().unwrap_or_default();
        of(&self.now) + of(&self.before) > FREE
    }
}

/// The place that the next step of a request waits for.
#[derive(Default)]
pub struct Turn(Option<BoxFuture<'static, Result<Grant, Refusal>>>);

impl Turn {
    /// The place for a step, or none for a step that needs none, or that only says that its request is refused.
    pub(super) fn take(
        &mut self,
        pace: &Pace,
        asker: &Asker,
        context: &mut Context<'_>,
    ) -> Poll<Option<Grant>> {
        if self.0.is_none() {
            let asks = matches!(*asker.entry(), Entry::Asks);
            if !pace.is_busy(asker.who()) {
                if asks {
                    *asker.entry() = Entry::Entered;
                }
                return Poll::Ready(None);
            }
            let (asker, places) = (asker.clone(), pace.0.places.clone());
            self.0 = Some(Box::pin(async move {
                if asks { asker.wait(&places).await } else { Ok(places.turn(asker.who()).await) }
            }));
        }
        let Some(waiting) = &mut self.0 else { return Poll::Ready(None) };
        let place = ready!(waiting.as_mut().poll(context));
        self.0 = None;
        *asker.entry() = place.as_ref().err().map_or(Entry::Entered, |refusal| Entry::Refused(*refusal));
        Poll::Ready(place.ok())
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Turn").field(&self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::super::{PATIENCE, as_asker, current_is};
    use super::*;

    fn asker(pace: &Pace, group: u128) -> Asker {
        let asker = Asker::new(None, None, Some(pace.clone()));
        asker.is(Who { group: Uuid::from_u128(group), account: Uuid::from_u128(group) });
        asker
    }

    /// Runs a step, if it is its turn.
    fn ran(asker: &Asker) -> bool {
        asker.run(async {}).now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn only_who_used_much_of_the_last_time_takes_places() {
        let pace = Pace::of(2);
        let (busy, other) = (asker(&pace, 1), asker(&pace, 2));
        let held: Vec<_> = (0..2).map(|_| pace.0.places.take(busy.who(), 1).unwrap()).collect();
        assert!(ran(&busy));
        pace.used(busy.who(), FREE);
        assert!(ran(&busy), "as much as is free");
        pace.used(busy.who(), Duration::from_micros(1));
        assert!(!ran(&busy));
        assert!(ran(&other));
        tokio::time::advance(PERIOD).await;
        assert!(!ran(&busy), "the period before counts");
        tokio::time::advance(PERIOD).await;
        assert!(ran(&busy));
        drop(held);
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_waits_runs_when_a_place_is_free() {
        let pace = Pace::of(1);
        let busy = asker(&pace, 1);
        pace.used(busy.who(), FREE * 2);
        let held = pace.0.places.take(busy.who(), 1).unwrap();
        let waiting = tokio::spawn({
            let busy = busy.clone();
            async move { busy.run(async { 7 }).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(held);
        assert_eq!(waiting.await.unwrap(), 7);
        assert_eq!(pace.0.places.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_given_up_while_it_waits_holds_no_place() {
        let pace = Pace::of(1);
        let busy = asker(&pace, 1);
        pace.used(busy.who(), FREE * 2);
        let held = pace.0.places.take(busy.who(), 1).unwrap();
        let mut given_up = Box::pin(busy.run(async {}));
        assert!(given_up.as_mut().now_or_never().is_none());
        drop(given_up);
        drop(held);
        assert_eq!(pace.0.places.used(), 0);
        assert!(ran(&busy));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_gets_no_first_place_in_time_is_refused_and_one_that_has_begun_is_not() {
        let pace = Pace::of(1);
        let who = asker(&pace, 1).who();
        let held = pace.0.places.take(who, 1).unwrap();
        let stays_busy = {
            let pace = pace.clone();
            tokio::spawn(async move {
                loop {
                    pace.used(who, FREE * 2);
                    tokio::time::sleep(PERIOD / 2).await;
                }
            })
        };
        tokio::task::yield_now().await;
        let began = Instant::now();
        // before its first step
        let new = asker(&pace, 1);
        let refused = new.run(async { new.has_entered() }).await;
        assert_eq!((refused, began.elapsed()), (Err(Refusal::Share("processors")), PATIENCE));
        // once its caller is known; and the rest of it waits no longer
        let known = Asker::new(None, None, Some(pace.clone()));
        let refused =
            as_asker(known.clone(), known.run(async { (current_is(who).await, known.patience()) })).await;
        assert_eq!(refused, (Err(Refusal::Share("processors")), Duration::ZERO));
        // one that has begun waits, and goes first
        let (begun, new) = (Asker::new(None, None, Some(pace.clone())), asker(&pace, 1));
        let (go, order) = (tokio::sync::Notify::new(), Mutex::new(Vec::new()));
        let begun = begun.run(async {
            go.notified().await;
            begun.is(who);
            tokio::task::yield_now().await;
            order.lock().unwrap().push("begun");
        });
        let new = new.run(async {
            new.has_entered().unwrap();
            order.lock().unwrap().push("new");
        });
        let frees = async {
            go.notify_one();
            tokio::time::sleep(PATIENCE.saturating_sub(PERIOD)).await;
            drop(held);
        };
        tokio::join!(new, begun, frees);
        assert_eq!(*order.lock().unwrap(), ["begun", "new"]);
        stays_busy.abort();
        assert_eq!(pace.0.places.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_busy_caller_has_all_processors_and_leaves_a_place_to_the_next() {
        let pace = Pace::of(2);
        let (busy, next) = (asker(&pace, 1), asker(&pace, 2));
        for caller in [&busy, &next] {
            pace.used(caller.who(), FREE * 2);
        }
        let held: Vec<_> = std::iter::from_fn(|| pace.0.places.take(busy.who(), 1).ok()).collect();
        assert_eq!(held.len(), 2);
        assert!(!ran(&busy));
        assert!(ran(&next));
    }
}
