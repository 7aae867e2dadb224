//! How much of a resource each caller uses; see [`share`](super).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use uuid::Uuid;

use super::{Refusal, Who};

/// Requests of one account that wait, and of all callers without a token: the next one is refused at once. Who gives back looks at all that
/// wait, so that their number is a limit of its time.
const MOST_WAITING: usize = 1_024;

/// Requests of one address without a token that wait.
const MOST_WAITING_AT: usize = MOST_WAITING / 4;

/// Counts a thing that all use; cheap to clone.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    what: &'static str,
    size: u64,
    times: u64,
    refused: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// by organisation, or account without one
    groups: HashMap<Uuid, u64>,
    /// by account, or address without one
    accounts: HashMap<Uuid, u64>,
    waiting: HashMap<Who, VecDeque<Waiter>>,
    /// of the next waiting caller
    number: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    goes_first: bool,
    granted: oneshot::Sender<Grant>,
}

impl Ledger {
    /// A number of units of a resource; a caller may have up to `times` as many as are free afterwards. `what` is its name,
    /// in the plural.
    #[must_use]
    pub fn new(what: &'static str, size: u64, times: u64) -> Self {
        Self(Arc::new(Inner { what, size, times, refused: AtomicU64::new(0), state: Mutex::default() }))
    }

    /// What it counts.
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.0.what
    }

    /// How many there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.0.size
    }

    /// How many are used.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.lock().used
    }

    /// How often a caller was refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Takes an amount at once.
    ///
    /// # Errors
    /// [`Refusal::Share`] where the asker has its share, [`Refusal::Full`] where it has less and there is no more.
    pub fn take(&self, who: Who, amount: u64) -> Result<Grant, Refusal> {
        let mut state = self.lock();
        if !self.has_room(&state, who, amount) {
            return Err(self.refusal(&state, who, amount));
        }
        Ok(self.grant(&mut state, who, amount))
    }

    /// Takes an amount that is used already, whether or not there is room.
    #[must_use]
    pub fn note(&self, who: Who, amount: u64) -> Grant {
        self.grant(&mut self.lock(), who, amount)
    }

    /// Whether a caller has more than its share.
    #[must_use]
    pub fn is_over(&self, who: Who) -> bool {
        let state = self.lock();
        // what callers without a token have not read, they may not take from others: it is never refused
        let (used, of_group) = if who.has_token() {
            (state.used - state.group(Who::default()), 0)
        } else {
            (state.used, state.group(who))
        };
        let most = (self.0.times * self.0.size.saturating_sub(used)).saturating_sub(of_group);
        let held = state.held(who);
        held > 0 && held >= most
    }

    /// Takes one, and waits for it.
    ///
    /// # Errors
    /// As of [`Self::take`], once `patience` is over.
    pub async fn wait(&self, who: Who, patience: Duration) -> Result<Grant, Refusal> {
        let mut granted = {
            let mut state = self.lock();
            if let Some(grant) = self.at_once(&mut state, who) {
                return Ok(grant);
            }
            if state.is_line_full(who) {
                return Err(self.refusal(&state, who, 1));
            }
            state.enters(who, false)
        };
        if let Ok(Ok(grant)) = tokio::time::timeout(patience, &mut granted).await {
            return Ok(grant);
        }
        let mut state = self.lock();
        // it may have come while the lock was waited for
        if let Ok(grant) = granted.try_recv() {
            return Ok(grant);
        }
        drop(granted);
        if let Some(waiting) = state.waiting.get_mut(&who) {
            waiting.retain(|waiter| !waiter.granted.is_closed());
            if waiting.is_empty() {
                state.waiting.remove(&who);
            }
        }
        Err(self.refusal(&state, who, 1))
    }

    /// Takes one, however long that takes, and before those that wait for a limited time.
    pub async fn turn(&self, who: Who) -> Grant {
        let granted = {
            let mut state = self.lock();
            match self.at_once(&mut state, who) {
                Some(grant) => return grant,
                None => state.enters(who, true),
            }
        };
        granted.await.unwrap_or_else(|_| self.note(who, 1))
    }

    /// One that is free, if nobody waits for it.
    fn at_once(&self, state: &mut State, who: Who) -> Option<Grant> {
        // waiting callers have asked before
        let is_next = !state.waiting.contains_key(&who);
        (is_next && self.has_room(state, who, 1)).then(|| self.grant(state, who, 1))
    }

    fn has_room(&self, state: &State, who: Who, amount: u64) -> bool {
        let Some(free) = self.0.size.checked_sub(state.used + amount) else { return false };
        let (held, group) = (state.held(who), state.group(who));
        if group == 0 {
            return true;
        }
        let Some(left) = (self.0.times * free).checked_sub(group + amount) else { return false };
        // of the common share of those without a token, an address may have as much as it leaves to the others
        who.has_token() || held == 0 || held + amount <= left
    }

    fn refusal(&self, state: &State, who: Who, amount: u64) -> Refusal {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        let (held, groups) = (state.held(who), state.groups.len() as u64);
        // some is free, but not for a caller that already has this much; or the caller has more than an equal part
        if held > 0 && (state.used + amount <= self.0.size || held * groups >= state.used) {
            Refusal::Share(self.0.what)
        } else {
            Refusal::Full(self.0.what)
        }
    }

    fn grant(&self, state: &mut State, who: Who, amount: u64) -> Grant {
        state.add(who, amount);
        Grant { ledger: self.clone(), who, amount }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an amount, and grants what is free now to waiting callers.
    fn give_back(&self, who: Who, amount: u64) {
        let mut granted = Vec::new();
        {
            let mut state = self.lock();
            state.subtract(who, amount);
            while let Some(next) = self.next(&state) {
                let Some(waiting) = state.waiting.get_mut(&next) else { break };
                let Some(waiter) = waiting.pop_front() else { break };
                if waiting.is_empty() {
                    state.waiting.remove(&next);
                }
                // callers that no longer wait are skipped
                if !waiter.granted.is_closed() {
                    granted.push((waiter.granted, self.grant(&mut state, next, 1)));
                }
            }
        }
        // what cannot be delivered is given back, by its drop: not under the lock
        for (waiter, grant) in granted {
            let _ = waiter.send(grant);
        }
    }

    /// The caller with the fewest units among those that fit; of several, the one that has waited longest.
    fn next(&self, state: &State) -> Option<Who> {
        let turn = |who: &Who| {
            let oldest = state.waiting.get(who).and_then(VecDeque::front).map_or(0, |waiter| waiter.number);
            (state.group(*who), state.account(*who), oldest)
        };
        let waiting = state.waiting.keys().filter(|who| self.has_room(state, **who, 1));
        waiting.min_by_key(|who| turn(who)).copied()
    }
}

impl State {
    fn group(&self, who: Who) -> u64 {
        self.groups.get(&who.group).copied().unwrap_or_default()
    }

    fn account(&self, who: Who) -> u64 {
        self.accounts.get(&who.account).copied().unwrap_or_default()
    }

    /// What counts against the share of a caller: all of its organisation, or of its address.
    fn held(&self, who: Who) -> u64 {
        if who.has_token() { self.group(who) } else { self.account(who) }
    }

    /// Waits from now on.
    fn enters(&mut self, who: Who, goes_first: bool) -> oneshot::Receiver<Grant> {
        let (granted, receiver) = oneshot::channel();
        self.number += 1;
        let line = self.waiting.entry(who).or_default();
        let position = if goes_first { line.partition_point(|w| w.goes_first) } else { line.len() };
        line.insert(position, Waiter { number: self.number, goes_first, granted });
        receiver
    }

    /// Whether no more requests of a caller may wait.
    fn is_line_full(&self, who: Who) -> bool {
        let of_caller = self.waiting.get(&who).map_or(0, VecDeque::len);
        if who.has_token() {
            return of_caller >= MOST_WAITING;
        }
        let lines = self.waiting.iter().filter(|(other, _)| !other.has_token());
        of_caller >= MOST_WAITING_AT || lines.map(|(_, line)| line.len()).sum::<usize>() >= MOST_WAITING
    }

    fn add(&mut self, who: Who, amount: u64) {
        self.used += amount;
        *self.groups.entry(who.group).or_default() += amount;
        *self.accounts.entry(who.account).or_default() += amount;
    }

    fn subtract(&mut self, who: Who, amount: u64) {
        self.used = self.used.saturating_sub(amount);
        for (map, by) in [(&mut self.groups, who.group), (&mut self.accounts, who.account)] {
            if let Some(held) = map.get_mut(&by) {
                *held = held.saturating_sub(amount);
                if *held == 0 {
                    map.remove(&by);
                }
            }
        }
    }
}

/// The units of a caller; returned when dropped.
#[derive(Debug)]
pub struct Grant {
    ledger: Ledger,
    who: Who,
    amount: u64,
}

impl Grant {
    /// Grows to an amount, or shrinks to it.
    ///
    /// # Errors
    /// As of [`Ledger::take`]; then it stays as it is.
    pub fn set(&mut self, amount: u64) -> Result<(), Refusal> {
        if amount > self.amount {
            let mut more = self.ledger.take(self.who, amount - self.amount)?;
            self.amount = amount;
            more.amount = 0;
        } else if amount < self.amount {
            self.ledger.give_back(self.who, self.amount - amount);
            self.amount = amount;
        }
        Ok(())
    }

    /// How much it is.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.amount
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if self.amount > 0 {
            self.ledger.give_back(self.who, self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const ZERO: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_mins(1);

    fn who(group: u128, account: u128) -> Who {
        Who { group: Uuid::from_u128(group), account: Uuid::from_u128(account) }
    }

    fn take_all(ledger: &Ledger, who: Who) -> Vec<Grant> {
        std::iter::from_fn(|| ledger.take(who, 1).ok()).collect()
    }

    #[test]
    fn one_has_half_two_a_third_each_and_a_newcomer_always_finds_a_place() {
        let ledger = Ledger::new("places", 8, 1);
        let one = take_all(&ledger, who(1, 1));
        assert_eq!(one.len(), 4);
        assert_eq!(ledger.take(who(1, 7), 1).unwrap_err(), Refusal::Share("places"), "by organisation");
        let two = take_all(&ledger, who(2, 2));
        assert_eq!(two.len(), 2);
        let others: Vec<_> = (3..=4).map(|n| ledger.take(who(n, n), 1).unwrap()).collect();
        assert_eq!(ledger.take(who(5, 5), 1).unwrap_err(), Refusal::Full("places"));
        assert_eq!(ledger.take(who(1, 1), 1).unwrap_err(), Refusal::Share("places"));
        drop((one, two, others));
        assert_eq!(ledger.used(), 0);
        assert!(ledger.lock().groups.is_empty() && ledger.lock().accounts.is_empty());
        assert_eq!(take_all(&Ledger::new("places", 4, 1), who(1, 1)).len(), 2);
        assert_eq!(take_all(&Ledger::new("places", 32, 3), who(1, 1)).len(), 24);
        assert_eq!(take_all(&Ledger::new("places", 1, 1), who(1, 1)).len(), 1);
    }

    #[test]
    fn callers_without_a_token_have_what_one_organisation_has_and_each_address_its_part() {
        let ledger = Ledger::new("places", 64, 1);
        let at = |n: u8| Who::at(IpAddr::from([192, 0, 2, n]));
        let mut held = Vec::new();
        for (n, most) in [(1, 21), (2, 7), (3, 2), (4, 1), (5, 1)] {
            let taken = take_all(&ledger, at(n));
            assert_eq!(taken.len(), most, "the address {n}");
            held.extend(taken);
        }
        assert_eq!(held.len(), 32);
        assert_eq!(ledger.take(at(1), 1).unwrap_err(), Refusal::Share("places"));
        assert_eq!(ledger.take(at(6), 1).unwrap_err(), Refusal::Full("places"));
        assert!(ledger.is_over(at(1)) && !ledger.is_over(at(6)));
        assert_eq!(take_all(&ledger, who(1, 1)).len(), 16);
        drop(held);
        assert_eq!(ledger.used(), 0);
        let [one, same, other] = ["2001:db8:1:2::1", "2001:db8:1:2:3::4", "2001:db8:1:3::1"]
            .map(|address| Who::at(address.parse().unwrap()));
        assert!(one == same && one != other, "a client of IPv6 has a whole /64");
        assert_eq!(Who::at("::ffff:192.0.2.1".parse().unwrap()), at(1));
        // of the smallest resource, each may have one
        let smallest = Ledger::new("places", 1, 3);
        assert_eq!(take_all(&smallest, at(1)).len(), 1);
    }

    #[tokio::test]
    async fn only_so_many_wait_without_a_token() {
        let ledger = Ledger::new("places", 1, 1);
        let held = ledger.take(who(1, 1), 1).unwrap();
        let at = |n: u8| Who::at(IpAddr::from([192, 0, 2, n]));
        let mut waiting = Vec::new();
        for (n, most) in
            [(1, MOST_WAITING_AT), (2, MOST_WAITING_AT), (3, MOST_WAITING_AT), (4, MOST_WAITING_AT), (5, 0)]
        {
            for _ in 0..most {
                let mut wait = Box::pin(ledger.wait(at(n), LONG));
                assert!(futures::poll!(&mut wait).is_pending());
                waiting.push(wait);
            }
            let mut next = Box::pin(ledger.wait(at(n), LONG));
            assert!(futures::poll!(&mut next).is_ready(), "one more of the address {n}");
        }
        let mut with_token = Box::pin(ledger.wait(who(2, 2), LONG));
        assert!(futures::poll!(&mut with_token).is_pending(), "an organisation has a line of its own");
        drop(held);
        assert!(futures::poll!(&mut with_token).is_pending() && waiting.len() == MOST_WAITING);
    }

    #[test]
    fn what_callers_without_a_token_have_not_read_is_not_taken_from_others() {
        let ledger = Ledger::new("bytes", 100, 1);
        let unread = ledger.note(Who::at(IpAddr::from([192, 0, 2, 1])), 1_000);
        let organisation = ledger.note(who(1, 1), 10);
        assert!(!ledger.is_over(who(1, 1)) && ledger.is_over(unread.who));
        drop((unread, organisation));
    }

    #[tokio::test]
    async fn a_place_goes_to_the_organisation_and_then_the_account_that_has_the_fewest() {
        let ledger = Ledger::new("places", 16, 3);
        let (busy, other_account, other) = (who(1, 1), who(1, 2), who(2, 3));
        let mut held = take_all(&ledger, busy);
        held.extend(take_all(&ledger, other));
        assert_eq!(held.len(), 12 + 3);
        let mut waiting = Vec::new();
        for who in [busy, busy, other_account, other] {
            let mut wait = Box::pin({
                let ledger = ledger.clone();
                async move { ledger.wait(who, LONG).await.unwrap() }
            });
            assert!(futures::poll!(&mut wait).is_pending());
            waiting.push(Some(wait));
        }
        // so many that the busy one gives back until the next may have one: three times what is free after it
        for (given_back, expected) in [(2, 3), (2, 2), (1, 0)] {
            for _ in 0..given_back {
                drop(held.remove(0));
            }
            let mut got = Vec::new();
            for (position, wait) in waiting.iter_mut().enumerate() {
                if let Some(future) = wait
                    && let std::task::Poll::Ready(grant) = futures::poll!(future)
                {
                    got.push(position);
                    held.push(grant);
                    *wait = None;
                }
            }
            assert_eq!(got, [expected]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_wait_takes_no_connection() {
        let ledger = Ledger::new("places", 1, 1);
        let first = ledger.take(who(1, 1), 1).unwrap();
        assert_eq!(ledger.wait(who(1, 1), ZERO).await.unwrap_err(), Refusal::Share("places"));
        assert_eq!(ledger.wait(who(2, 2), ZERO).await.unwrap_err(), Refusal::Full("places"));
        assert!(ledger.lock().waiting.is_empty());
        let mut gone = Box::pin(ledger.wait(who(2, 2), LONG));
        assert!(futures::poll!(&mut gone).is_pending());
        let mut next = Box::pin(ledger.wait(who(3, 3), LONG));
        assert!(futures::poll!(&mut next).is_pending());
        drop((gone, first));
        let next = next.await.unwrap();
        assert_eq!(ledger.used(), 1);
        drop(next);
        assert_eq!((ledger.used(), ledger.lock().waiting.len()), (0, 0));
    }

    #[test]
    fn a_grant_grows_within_the_share_and_shrinks() {
        let ledger = Ledger::new("bytes", 100, 1);
        let mut grant = ledger.take(who(1, 1), 10).unwrap();
        grant.set(50).unwrap();
        assert_eq!(grant.set(51).unwrap_err(), Refusal::Share("bytes"));
        assert_eq!((grant.amount(), ledger.used()), (50, 50));
        grant.set(5).unwrap();
        assert_eq!(ledger.used(), 5);
        let noted = ledger.note(who(1, 1), 200);
        assert!(ledger.is_over(who(1, 1)) && !ledger.is_over(who(2, 2)));
        drop((grant, noted));
        assert_eq!(ledger.used(), 0);
    }
}
