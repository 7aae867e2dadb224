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
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
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
    waited: Mutex<Option<(Instant, Duration)>>,
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

    /// Runs its request step by step, each as soon as it is its turn ([`pace`]).
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
        let place = ready!(turn.take(pace, self.who(), context));
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
        let waited = *self.0.waited.lock().unwrap_or_else(PoisonError::into_inner);
        match waited {
            Some((at, waited)) if at.elapsed() < FORGOTTEN => PATIENCE.saturating_sub(waited),
            _ => PATIENCE,
        }
    }

    /// It has waited.
    pub fn waited(&self, wait: Duration) {
        let mut waited = self.0.waited.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match *waited {
            Some((at, before)) if at.elapsed() < FORGOTTEN => before,
            _ => Duration::ZERO,
        };
        *waited = Some((Instant::now(), before + wait));
    }
}

/// Sets the caller of the running request, now that it is known; what follows is a step of its own if that caller is busy.
pub async fn current_is(who: Who) {
    let Some(asker) = Asker::current() else { return };
    asker.is(who);
    if asker.0.pace.as_ref().is_some_and(|pace| pace.is_busy(who)) {
        tokio::task::yield_now().await;
    }
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
