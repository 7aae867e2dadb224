//! Shares of resources that all callers use: connections of a pool, bytes of memory, processors.
//!
//! # The rule
//!
//! A [`Ledger`] counts the use of a resource by asker. An asker may use a multiple ([`Ledger::new`]) of what stays free
//! afterwards. So shares are not fixed: a single asker gets half of the resource (or three quarters), two get a third each, and
//! so on. Some of it always stays free: the next asker gets a place at once, without waiting for another one to release it.
//! Unused parts are lent, never reserved.
//!
//! An asker is an organisation, or an account that belongs to none or to several. Waiting askers take turns: a place that
//! becomes free goes to the organisation that uses the fewest, and in it to the account that uses the fewest.
//!
//! All callers without a valid token together may have what one organisation may. Of that, each address may have as much as stays
//! free for the other addresses: a single one gets a third of the resource (or three fifths).
//!
//! # Askers
//!
//! Each request has an [`Asker`] ([`as_asker`]), which knows the address, and learns the caller as soon as its token has been
//! checked. Work without one (jobs, upkeep, the clean-up of an aborted request) is not limited.

mod ledger;
pub mod pace;

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

pub use self::ledger::{Grant, Ledger};
use self::pace::{Pace, Turn};
use crate::proxy::site;

/// How long a request waits for places, all of its waits together.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// After this time without a wait, a long request (an upload) may wait again.
const FORGOTTEN: Duration = Duration::from_secs(10);

tokio::task_local! {
    /// Nothing where what runs is no request's.
    static ASKER: Option<Asker>;
}

/// Whose share counts; by default, that of a caller without a valid token, from an address that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Who {
    /// The organisation; the account, where that is of none or of several; nil for callers without a valid token.
    pub group: Uuid,
    /// The account, or the token that is of none; the address of a caller without a valid token.
    pub account: Uuid,
}

impl Who {
    /// A caller without a valid token, by what its address counts as ([`site`]).
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        let v6 = match site(address) {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Self { group: Uuid::nil(), account: Uuid::from_u128(v6.to_bits()) }
    }

    fn has_token(self) -> bool {
        !self.group.is_nil()
    }
}

/// A request that asks for shares; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Asker(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    who: OnceLock<Who>,
    /// who it is until the token has been checked
    at: Who,
    /// bytes of unread answers
    answers: Option<Ledger>,
    pace: Option<Pace>,
    entry: Mutex<Entry>,
    waits: Mutex<Waits>,
}

/// Whether the request may begin.
#[derive(Clone, Copy, Debug, Default)]
enum Entry {
    #[default]
    Asks,
    Entered,
    Refused(Refusal),
}

/// For how long a request has been waiting for others. What it asks for at once waits at the same time; and while it holds some of
/// what is shared, it gets on.
#[derive(Debug, Default)]
struct Waits {
    waiting: u32,
    /// what it holds: the name of the resource for each
    held: Vec<&'static str>,
    /// since when it has been waiting, and holds nothing
    since: Option<Instant>,
    /// when it last ended to wait, and for how long it had been waiting in all
    last: Option<(Instant, Duration)>,
}

impl Waits {
    fn waited(&self) -> Duration {
        let from = self.since.unwrap_or_else(Instant::now);
        let before = match self.last {
            Some((at, before)) if from.saturating_duration_since(at) < FORGOTTEN => before,
            _ => Duration::ZERO,
        };
        before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let now = Instant::now();
        if self.since.is_some() {
            self.last = Some((now, self.waited()));
        }
        change(self);
        self.since = (self.waiting > 0 && self.held.is_empty()).then_some(now);
    }
}

impl Asker {
    /// No caller yet, only an address. A caller with more unread `answers` than its share gets no connection.
    #[must_use]
    pub fn new(address: Option<IpAddr>, answers: Option<Ledger>, pace: Option<Pace>) -> Self {
        let at = address.map(Who::at).unwrap_or_default();
        Self(Arc::new(Inner { at, answers, pace, ..Inner::default() }))
    }

    /// The one of the running request.
    #[must_use]
    pub fn current() -> Option<Self> {
        ASKER.try_with(Clone::clone).ok().flatten()
    }

    /// Sets the caller, now that it is known.
    pub fn is(&self, who: Who) {
        let _ = self.0.who.set(who);
    }

    /// Whose share counts.
    #[must_use]
    pub fn who(&self) -> Who {
        self.0.who.get().copied().unwrap_or(self.0.at)
    }

    /// Runs its request step by step, each as soon as it is its turn ([`pace`]). The request must ask whether it
    /// [has entered](Self::has_entered).
    pub async fn run<F: Future>(&self, request: F) -> F::Output {
        let (mut request, mut turn) = (pin!(request), Turn::default());
        poll_fn(|context| self.step(&mut turn, context, |context| request.as_mut().poll(context))).await
    }

    /// Runs a step, as soon as it is its turn ([`pace`]).
    pub fn step<T>(
        &self,
        turn: &mut Turn,
        context: &mut Context<'_>,
        step: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let Some(pace) = &self.0.pace else { return step(context) };
        let place = ready!(turn.take(pace, self, context));
        let begun = Instant::now();
        let done = step(context);
        // by now the token may have been checked
        pace.used(self.who(), begun.elapsed());
        drop(place);
        done
    }

    /// Refuses callers that do not read their answers.
    ///
    /// # Errors
    /// [`Refusal::Unread`].
    pub fn must_have_read(&self) -> Result<(), Refusal> {
        match &self.0.answers {
            Some(answers) if answers.is_over(self.who()) => Err(Refusal::Unread),
            _ => Ok(()),
        }
    }

    /// How long it may still wait.
    #[must_use]
    pub fn patience(&self) -> Duration {
        PATIENCE.saturating_sub(self.waits().waited())
    }

    /// It waits until the guard is dropped.
    #[must_use]
    pub fn begins_to_wait(&self) -> Waiting {
        self.waits().change(|waits| waits.waiting += 1);
        Waiting(self.clone())
    }

    /// It holds some of a resource until the guard is dropped.
    #[must_use]
    pub fn holds(&self, ledger: &Ledger) -> Holding {
        self.waits().change(|waits| waits.held.push(ledger.what()));
        Holding(self.clone(), ledger.what())
    }

    /// Takes one of a resource, and waits for it as long as it may. It also waits while it holds some: that is given back, so nothing
    /// is refused because the request itself has the share of its caller.
    ///
    /// # Errors
    /// As of [`Ledger::wait`].
    pub async fn wait(&self, ledger: &Ledger) -> Result<Grant, Refusal> {
        let _waiting = self.begins_to_wait();
        loop {
            let was_holding = self.is_holding(ledger);
            let patience = if was_holding { PATIENCE } else { self.patience() };
            let asked = Instant::now();
            match ledger.wait(self.who(), patience).await {
                Err(_) if asked.elapsed() >= patience && (was_holding || self.is_holding(ledger)) => {}
                came => return came,
            }
        }
    }

    fn is_holding(&self, ledger: &Ledger) -> bool {
        self.waits().held.contains(&ledger.what())
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.0.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self) -> MutexGuard<'_, Entry> {
        self.0.entry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it got its first place in time ([`pace`]).
    ///
    /// # Errors
    /// As of [`Self::wait`].
    pub fn has_entered(&self) -> Result<(), Refusal> {
        match *self.entry() {
            Entry::Refused(refusal) => Err(refusal),
            Entry::Asks | Entry::Entered => Ok(()),
        }
    }
}

/// A request that waits for others.
#[derive(Debug)]
pub struct Waiting(Asker);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waits().change(|waits| waits.waiting -= 1);
    }
}

/// A request that holds some of a resource.
#[derive(Debug)]
pub struct Holding(Asker, &'static str);

impl Drop for Holding {
    fn drop(&mut self) {
        self.0.waits().change(|waits| {
            if let Some(position) = waits.held.iter().position(|held| *held == self.1) {
                waits.held.swap_remove(position);
            }
        });
    }
}

/// Waits for others, on behalf of the running request as long as that may.
///
/// # Errors
/// [`Refusal::Full`].
pub async fn patiently<F: Future>(what: &'static str, wait: F) -> Result<F::Output, Refusal> {
    let Some(asker) = Asker::current() else { return Ok(wait.await) };
    let _waiting = asker.begins_to_wait();
    tokio::time::timeout(asker.patience(), wait).await.map_err(|_| Refusal::Full(what))
}

/// Sets the caller of the running request, now that it is known. What follows is a step of its own if that caller is busy, for which
/// the request waits as long as it may.
///
/// # Errors
/// As of [`Asker::wait`].
pub async fn current_is(who: Who) -> Result<(), Refusal> {
    let Some(asker) = Asker::current() else { return Ok(()) };
    asker.is(who);
    if asker.0.pace.as_ref().is_some_and(|pace| pace.is_busy(who)) {
        *asker.entry() = Entry::Asks;
        tokio::task::yield_now().await;
    }
    asker.has_entered()
}

/// Runs something on behalf of a request.
pub async fn as_asker<F: Future>(asker: Asker, future: F) -> F::Output {
    ASKER.scope(Some(asker), future).await
}

/// Runs what serves all callers, one at a time: others would wait with a request that waits for its share.
pub async fn for_all<F: Future>(future: F) -> F::Output {
    ASKER.scope(None, future).await
}

/// Why a caller is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has its share of it, and asked for more.
    #[error("the share of {0} is in use")]
    Share(&'static str),
    /// All of it is in use.
    #[error("all {0} are in use")]
    Full(&'static str),
    /// It does not read its answers.
    #[error("answers are left unread")]
    Unread,
}

impl From<Refusal> for sqlx::Error {
    fn from(refusal: Refusal) -> Self {
        Self::AnyDriverError(Box::new(refusal))
    }
}

/// The refusal that an error of a pool is.
#[must_use]
pub fn refusal(error: &sqlx::Error) -> Option<Refusal> {
    match error {
        sqlx::Error::AnyDriverError(error) => error.downcast_ref().copied(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn asker(group: u128) -> Asker {
        let asker = Asker::default();
        asker.is(Who { group: Uuid::from_u128(group), account: Uuid::from_u128(group) });
        asker
    }

    /// A statement that takes a while.
    async fn state(asker: &Asker, ledger: &Ledger, takes: Duration) -> Result<(), Refusal> {
        let _grant = asker.wait(ledger).await?;
        let _holding = asker.holds(ledger);
        tokio::time::sleep(takes).await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_not_refused_because_of_what_it_holds_itself() {
        let ledger = Ledger::new("places", 4, 1);
        let alone = asker(1);
        let asked = Instant::now();
        // two at a time
        let came = join_all((0..20).map(|_| state(&alone, &ledger, SECOND * 3))).await;
        assert!(came.iter().all(Result::is_ok), "{came:?}");
        assert_eq!(asked.elapsed(), SECOND * 30);
        assert_eq!(alone.patience(), PATIENCE, "it has waited for nobody else");
        assert!(alone.waits().held.is_empty() && ledger.used() == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_request_asks_for_at_once_waits_at_the_same_time() {
        let ledger = Ledger::new("places", 4, 1);
        let (first, second) = (asker(1), asker(1));
        let held: Vec<_> = std::iter::from_fn(|| ledger.take(first.who(), 1).ok()).collect();
        let asked = Instant::now();
        let frees = async {
            tokio::time::sleep(SECOND * 3).await;
            drop(held);
        };
        let (came, ()) =
            tokio::join!(join_all((0..10).map(|_| state(&second, &ledger, Duration::ZERO))), frees);
        assert!(came.iter().all(Result::is_ok), "{came:?}");
        assert_eq!((asked.elapsed(), second.patience()), (SECOND * 3, SECOND * 2));
        // the rest of its patience
        let _held: Vec<_> = std::iter::from_fn(|| ledger.take(first.who(), 1).ok()).collect();
        let refused = state(&second, &ledger, Duration::ZERO).await;
        assert_eq!((refused, asked.elapsed()), (Err(Refusal::Share("places")), PATIENCE));
        tokio::time::sleep(FORGOTTEN).await;
        assert_eq!(second.patience(), PATIENCE);
    }
}
