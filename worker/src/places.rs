//! Which turns may run now: a process has a number of places for each queue, and every turn of a lane, or at a partner, takes one.
//!
//! Hanging destinations and partners keep their places until a call times out, and an organisation may have any number of
//! them. To keep them from delaying others:
//!
//! - **Organisations take turns.** Turns that wait do so by organisation, and each place that becomes free goes to the next
//!   organisation, however many the others have waiting.
//! - **A share for each, lent while it is unused.** An organisation takes one more place while it holds no more than
//!   [`LENT`] times as many as are free. Alone, it has nearly all of them; and another finds a free one, and need not wait
//!   until a call ends. (This is the dynamic threshold by which switches share their memory.)
//! - **A share for the slow.** A turn is *slow* while it only waits for answers, or where the last one of its lane ended so,
//!   or with a failure. What is known to be slow takes up to three quarters of the places. What begins to hang is counted
//!   among the slow from the first fraction of a second on.
//! - **Few begin at once.** A lane that begins costs more than one that waits: a lease, a connection, a signature. Of one
//!   organisation [`BEGINNING`] turns begin at a time, so that another's first turn is not behind a thousand.
//! - **Long turns end early.** A turn at a partner may last for minutes. While an organisation waits that holds fewer places
//!   than another, the newest turns of the one that holds most are asked to end ([`Places::of_long_turns`]). The older ones go
//!   on, so each comes to its end.
//!
//! Places do not decide what is due: a turn that gets no place, or has waited too long for one, stays due in Postgres, and the
//! dispatcher puts it on the queue again.

mod line;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::line::Line;

/// How many times as many places as are free an organisation may hold, and take one more.
const LENT: usize = 8;

/// Turns of one organisation that begin at the same time. They begin in about as many milliseconds, so this is no limit to
/// what an organisation alone can do.
const BEGINNING: usize = 48;

/// For how long it is remembered that a lane was slow.
const REMEMBERED: Duration = Duration::from_mins(10);

/// Lanes of which that is remembered; at more, what is out of date is forgotten.
const SLOW_LANES: usize = 20_000;

/// How long a turn waits for a place before it is left to the dispatcher.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Turns that wait in a process; at more, the organisation with the longest line loses its last.
pub const WAITING: usize = 4_096;

/// The places of a process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Places(Arc<Mutex<State>>);

/// How the places are used at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Places there are.
    pub places: usize,
    /// Held by turns that get on.
    pub quick: usize,
    /// Held by turns that wait for answers, or whose lane was slow or failed last.
    pub slow: usize,
    /// Turns that wait for a place.
    pub waiting: usize,
}

#[derive(Debug)]
struct State {
    places: usize,
    paused: bool,
    quick: Kind,
    slow: Kind,
    /// Turns that begin, by organisation.
    beginning: HashMap<Uuid, usize>,
    /// Until when a lane counts as slow.
    known: HashMap<Uuid, Instant>,
    /// Turns that can be asked to end, in the order in which they began; nothing where turns are short.
    long: Option<Vec<LongTurn>>,
}

#[derive(Debug)]
struct LongTurn {
    organisation: Uuid,
    turn: Uuid,
    end: CancellationToken,
}

/// The turns that are slow, or that are not.
#[derive(Debug, Default)]
struct Kind {
    held: usize,
    by_organisation: HashMap<Uuid, usize>,
    line: Line,
}

impl Kind {
    fn holds(&self, organisation: Uuid) -> usize {
        self.by_organisation.get(&organisation).copied().unwrap_or(0)
    }

    fn take(&mut self, organisation: Uuid) {
        self.held += 1;
        *self.by_organisation.entry(organisation).or_default() += 1;
    }

    fn leave(&mut self, organisation: Uuid) {
        self.held = self.held.saturating_sub(1);
        if let Some(held) = self.by_organisation.get_mut(&organisation) {
            *held -= 1;
            if *held == 0 {
                self.by_organisation.remove(&organisation);
            }
        }
    }
}

impl State {
    fn free(&self) -> usize {
        self.places.saturating_sub(self.quick.held + self.slow.held)
    }

    /// Places that those may take that are known to be slow.
    fn free_for_slow(&self) -> usize {
        let share = (self.places - self.places / 4).max(1);
        share.saturating_sub(self.slow.held).min(self.free())
    }

    fn may_enter(&self, organisation: Uuid, slow: bool) -> bool {
        let (free, held) = if slow {
            (self.free_for_slow(), self.slow.holds(organisation))
        } else {
            (self.free(), self.quick.holds(organisation) + self.slow.holds(organisation))
        };
        let beginning = self.beginning.get(&organisation).copied().unwrap_or(0);
        // a long turn is nearly all waiting
        let may_begin = self.long.is_some() || beginning < BEGINNING;
        !self.paused && may_begin && free > 0 && held <= LENT * free
    }

    /// A turn takes a place, and begins.
    fn take(&mut self, organisation: Uuid, slow: bool) {
        self.kind(slow).take(organisation);
        *self.beginning.entry(organisation).or_default() += 1;
    }

    /// A turn has begun, or has ended before that.
    fn began(&mut self, organisation: Uuid) {
        if let Some(beginning) = self.beginning.get_mut(&organisation) {
            *beginning -= 1;
            if *beginning == 0 {
                self.beginning.remove(&organisation);
            }
        }
    }

    fn kind(&mut self, slow: bool) -> &mut Kind {
        if slow { &mut self.slow } else { &mut self.quick }
    }

    /// Gives free places to those who wait.
    fn admit(&mut self) {
        for slow in [false, true] {
            loop {
                let mut line = std::mem::take(&mut self.kind(slow).line);
                // a place that was asked for goes to an organisation that has the fewest
                let is_long = self.long.is_some();
                let holds = |waiting| self.quick.holds(waiting);
                let fewest = if is_long { line.organisations().map(holds).min() } else { None };
                let next = line.next(|organisation| {
                    self.may_enter(organisation, slow)
                        && fewest.is_none_or(|fewest| holds(organisation) == fewest)
                });
                self.kind(slow).line = line;
                let Some((organisation, tell)) = next else { break };
                // whoever has gone meanwhile takes none
                if tell.send(()).is_ok() {
                    self.take(organisation, slow);
                }
            }
        }
        self.ask_for_room();
    }

    /// Asks turns to end: of the organisation that holds most, the newest, for each that waits and holds fewer.
    fn ask_for_room(&self) {
        let Some(long) = &self.long else { return };
        let (asked, mut left): (Vec<&LongTurn>, Vec<_>) =
            long.iter().partition(|turn| turn.end.is_cancelled());
        // a place that was given just now has no turn yet
        let mut held = self.quick.by_organisation.clone();
        for turn in &asked {
            held.entry(turn.organisation).and_modify(|held| *held = held.saturating_sub(1));
        }
        // places that are free, or whose turns have been asked already
        let mut to_come = self.free() + asked.len();
        for waiting in self.quick.line.organisations() {
            let has = held.get(&waiting).copied().unwrap_or(0);
            let holders = left
                .iter()
                .enumerate()
                .map(|(at, turn)| (held.get(&turn.organisation).copied().unwrap_or(0), at));
            // the last of those that are equal, which is the newest
            let Some((most, at)) = holders.max_by_key(|(holds, _)| *holds) else { return };
            if most <= has + 1 {
                continue;
            }
            if to_come > 0 {
                to_come -= 1;
            } else {
                let turn = left.remove(at);
                turn.end.cancel();
                held.insert(turn.organisation, most.saturating_sub(1));
            }
            held.insert(waiting, has + 1);
        }
    }

    fn is_known(&self, turn: Uuid) -> bool {
        self.known.get(&turn).is_some_and(|until| Instant::now() < *until)
    }

    fn remember(&mut self, turn: Uuid, slow: bool) {
        if !slow {
            self.known.remove(&turn);
            return;
        }
        let now = Instant::now();
        if self.known.len() >= SLOW_LANES {
            self.known.retain(|_, until| now < *until);
        }
        if self.known.len() < SLOW_LANES || self.known.contains_key(&turn) {
            self.known.insert(turn, now + REMEMBERED);
        }
    }

    fn waiting(&self) -> usize {
        self.quick.line.len() + self.slow.line.len()
    }
}

impl Places {
    /// So many, at least one.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            places: places.max(1),
            paused: false,
            quick: Kind::default(),
            slow: Kind::default(),
            beginning: HashMap::new(),
            known: HashMap::new(),
            long: None,
        })))
    }

    /// The same for turns that may last for minutes, and can be asked to end.
    #[must_use]
    pub fn of_long_turns(places: usize) -> Self {
        let new = Self::new(places);
        new.lock().long = Some(Vec::new());
        new
    }

    /// Has so many places from now on, none of which is taken while it is paused. What runs goes on.
    pub fn set(&self, places: usize, paused: bool) {
        let mut state = self.lock();
        state.places = places.max(1);
        state.paused = paused;
        if paused {
            // it stays due, and is found when the queue goes on
            state.quick.line.clear();
            state.slow.line.clear();
        }
        state.admit();
    }

    /// How they are used.
    #[must_use]
    pub fn in_use(&self) -> Use {
        let state = self.lock();
        Use { places: state.places, quick: state.quick.held, slow: state.slow.held, waiting: state.waiting() }
    }

    /// Cancelled when a long turn is asked to end. A turn without a place is never asked.
    #[must_use]
    pub fn end_of(&self, turn: Uuid) -> CancellationToken {
        let state = self.lock();
        let long = state.long.iter().flatten().find(|long| long.turn == turn);
        long.map_or_else(CancellationToken::new, |long| long.end.clone())
    }

    /// Waits for a place for a turn. Nothing where the turn waits already, there is no room to wait, or it took too long.
    pub(crate) async fn enter(&self, turn: Uuid, organisation: Uuid) -> Option<Place> {
        let (slow, entered) = {
            let mut state = self.lock();
            let slow = state.is_known(turn);
            if state.paused {
                return None;
            }
            if state.may_enter(organisation, slow) && state.kind(slow).line.is_empty_for(organisation) {
                state.take(organisation, slow);
                (slow, None)
            } else {
                if state.quick.line.has(turn) || state.slow.line.has(turn) {
                    return None;
                }
                let (tell, told) = oneshot::channel();
                state.kind(slow).line.join(organisation, turn, tell);
                if state.waiting() > WAITING {
                    // those that are slow can best wait a second longer
                    let from_slow = state.slow.line.len() >= state.quick.line.len();
                    state.kind(from_slow).line.turn_away();
                }
                state.admit();
                (slow, Some(told))
            }
        };
        if let Some(told) = entered {
            let waiting = Waiting { places: self, turn, organisation, slow, told: Some(told) };
            waiting.wait().await?;
        }
        if let Some(long) = &mut self.lock().long {
            long.push(LongTurn { organisation, turn, end: CancellationToken::new() });
        }
        Some(Place { places: self.clone(), turn, organisation, begins: true, slow, was_slow: slow })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn that waits for a place. One that gives up leaves the line, and hands on a place that it was just given.
struct Waiting<'p> {
    places: &'p Places,
    turn: Uuid,
    organisation: Uuid,
    slow: bool,
    told: Option<oneshot::Receiver<()>>,
}

impl Waiting<'_> {
    async fn wait(mut self) -> Option<()> {
        let told = self.told.as_mut()?;
        let told = tokio::time::timeout(PATIENCE, told).await.ok()?;
        // given a place or turned away: in either case it has left the line
        self.told = None;
        told.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(mut told) = self.told.take() else { return };
        let mut state = self.places.lock();
        state.kind(self.slow).line.leave(self.organisation, self.turn);
        if told.try_recv().is_ok() {
            state.kind(self.slow).leave(self.organisation);
            state.began(self.organisation);
            state.admit();
        }
    }
}

/// A place that is held; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    turn: Uuid,
    organisation: Uuid,
    begins: bool,
    slow: bool,
    /// How the lane is remembered.
    was_slow: bool,
}

impl Place {
    /// Counts the turn among the slow, or among the others. What begins to be slow is counted so even where that makes more
    /// than their share: then only nobody else enters it.
    pub(crate) fn set_slow(&mut self, slow: bool) {
        if self.slow == slow {
            return;
        }
        self.slow = slow;
        let mut state = self.places.lock();
        state.kind(!slow).leave(self.organisation);
        state.kind(slow).take(self.organisation);
        state.admit();
    }

    /// The turn has begun: it has an answer, or waits for one. Another of the organisation may begin.
    pub(crate) fn began(&mut self) {
        if std::mem::take(&mut self.begins) {
            let mut state = self.places.lock();
            state.began(self.organisation);
            state.admit();
        }
    }

    /// Whether the turn is counted among the slow.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow
    }

    /// How the next turn of the lane is to be counted when it enters.
    pub(crate) fn remember(&mut self, slow: bool) {
        self.was_slow = slow;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        state.remember(self.turn, self.was_slow);
        if let Some(long) = &mut state.long {
            // the same turn may have entered twice: then the older one, which runs, can still be asked
            if let Some(at) = long.iter().rposition(|long| long.turn == self.turn) {
                long.remove(at);
            }
        }
        state.kind(self.slow).leave(self.organisation);
        if self.begins {
            state.began(self.organisation);
        }
        state.admit();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::BoxFuture;

    use super::*;

    fn lane(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    const A: Uuid = Uuid::from_u128(1 << 100);
    const B: Uuid = Uuid::from_u128(2 << 100);

    /// Those that enter as soon as those before them have begun, and those that wait.
    fn enter(
        places: &Places,
        organisation: Uuid,
        lanes: impl IntoIterator<Item = u128>,
    ) -> (Vec<Place>, Vec<BoxFuture<'_, Option<Place>>>) {
        let (mut entered, mut waiting) = (Vec::new(), Vec::new());
        for n in lanes {
            let mut entering = places.enter(lane(n), organisation).boxed();
            match (&mut entering).now_or_never() {
                Some(Some(mut place)) => {
                    place.began();
                    entered.push(place);
                }
                Some(None) => {}
                None => waiting.push(entering),
            }
        }
        (entered, waiting)
    }

    /// Lanes that have been slow.
    fn make_slow(places: &Places, organisation: Uuid, lanes: impl IntoIterator<Item = u128>) {
        for n in lanes {
            let (mut entered, _) = enter(places, organisation, [n]);
            entered[0].remember(true);
        }
    }

    #[tokio::test]
    async fn alone_an_organisation_has_nearly_all_and_another_has_a_place_at_once() {
        let places = Places::new(1_024);
        let (alone, waiting) = enter(&places, A, 0..2_000);
        assert!(alone.len() > 900, "{}", alone.len());
        assert_eq!(alone.len() + waiting.len(), 2_000);
        let (other, _) = enter(&places, B, 5_000..5_064);
        assert_eq!(other.len(), 64);
    }

    #[tokio::test]
    async fn few_turns_of_one_organisation_begin_at_once_and_those_of_another_beside_them() {
        let places = Places::new(1_024);
        let begin = |organisation, n| places.enter(lane(n), organisation).now_or_never().flatten();
        let mut of_a: Vec<Place> = (0..).map_while(|n| begin(A, n)).collect();
        assert_eq!(of_a.len(), BEGINNING);
        assert!(begin(B, 5_000).is_some());
        let mut waiting = places.enter(lane(2_000), A).boxed();
        assert!((&mut waiting).now_or_never().is_none());
        of_a[0].began();
        of_a[0].began();
        assert!((&mut waiting).now_or_never().flatten().is_some(), "the next begins");
        assert!(begin(A, 2_001).is_some(), "the one before has ended");
        of_a.clear();
        assert!(places.lock().beginning.is_empty());
    }

    #[tokio::test]
    async fn few_places_are_all_lent() {
        let places = Places::new(4);
        assert_eq!(enter(&places, A, 0..9).0.len(), 4);
    }

    #[tokio::test]
    async fn a_free_place_goes_to_the_next_organisation_whatever_another_has_waiting() {
        let places = Places::new(4);
        let (mut held, of_a) = enter(&places, A, 0..100);
        let (_, mut of_b) = enter(&places, B, 200..202);
        held.pop();
        held.pop();
        // A waits longer, and has one of the two
        let b = of_b.iter_mut().filter_map(|entering| entering.now_or_never().flatten()).count();
        assert_eq!(b, 1);
        drop(of_a);
    }

    #[tokio::test]
    async fn what_is_known_to_be_slow_leaves_a_quarter_to_the_others() {
        let places = Places::new(64);
        make_slow(&places, A, 0..200);
        make_slow(&places, B, 200..400);
        let (of_a, _waiting) = enter(&places, A, 0..200);
        let (of_b, _too) = enter(&places, B, 200..400);
        assert_eq!(places.in_use().slow, 48);
        assert!(of_a.len() + of_b.len() == 48 && !of_b.is_empty());
        let (healthy, _) = enter(&places, A, 1_000..1_004);
        assert_eq!(healthy.len(), 4, "of the same organisation, too");
    }

    #[tokio::test]
    async fn what_begins_to_hang_is_counted_as_slow_and_remembered_until_it_is_well() {
        let places = Places::new(8);
        let (mut entered, _) = enter(&places, A, [7]);
        let mut place = entered.remove(0);
        place.set_slow(true);
        assert_eq!((places.in_use().quick, places.in_use().slow), (0, 1));
        place.remember(true);
        drop(place);
        assert_eq!(places.in_use(), Use { places: 8, ..Use::default() });
        let (mut again, _) = enter(&places, A, [7]);
        assert!(again[0].is_slow());
        again[0].set_slow(false);
        again[0].remember(false);
        again.clear();
        assert!(!enter(&places, A, [7]).0[0].is_slow());
    }

    #[tokio::test]
    async fn a_lane_waits_once_and_one_that_gives_up_hands_its_place_on() {
        let places = Places::new(1);
        let (held, mut first) = enter(&places, A, [1, 2]);
        assert_eq!(enter(&places, A, [2]).1.len(), 0, "it waits already");
        let (_, mut second) = enter(&places, A, [3]);
        // the place is given to the first, which is gone before it hears of it
        drop(held);
        first.clear();
        assert!((&mut second[0]).now_or_never().flatten().is_some());
        assert_eq!(places.in_use().waiting, 0);
    }

    #[tokio::test]
    async fn where_too_many_wait_the_longest_line_loses_its_last() {
        let places = Places::new(1);
        let (_held, mut of_a) = enter(&places, A, 0..=u128::try_from(WAITING).unwrap());
        let (_, mut of_b) = enter(&places, B, 10_000..10_002);
        assert_eq!(places.in_use().waiting, WAITING);
        assert!(of_b.iter_mut().all(|entering| entering.now_or_never().is_none()));
        assert_eq!(of_a.iter_mut().filter_map(FutureExt::now_or_never).count(), 2, "turned away");
    }

    #[tokio::test]
    async fn the_newest_long_turns_of_whom_has_most_are_asked_to_end_for_those_who_wait() {
        const C: Uuid = Uuid::from_u128(3 << 100);
        let places = Places::of_long_turns(4);
        let (mut of_a, _more_of_a) = enter(&places, A, 0..6);
        let asked = |n: u128| places.end_of(lane(n)).is_cancelled();
        assert!(of_a.len() == 4 && (0..4).all(|n| !asked(n)), "its own do not ask");
        let (_, mut of_b) = enter(&places, B, 10..12);
        let (_, mut of_c) = enter(&places, C, 20..21);
        assert_eq!([0, 1, 2, 3].map(asked), [false, false, true, true], "one for each that waits");
        of_a.truncate(2);
        let mut entered = Vec::new();
        for waiting in of_b.iter_mut().chain(&mut of_c) {
            entered.extend(waiting.now_or_never().flatten());
        }
        assert_eq!(entered.len(), 2, "B and C have one each");
        assert!(!asked(0) && !asked(1), "B waits for a second, and A has only one more than it has");
    }

    #[tokio::test]
    async fn a_long_turn_that_enters_twice_can_be_asked_until_both_have_left() {
        let places = Places::of_long_turns(2);
        let (_running, _) = enter(&places, A, [1]);
        let (again, _) = enter(&places, A, [1]);
        drop(again);
        let (_newer, _) = enter(&places, A, [2]);
        let (_, _of_b) = enter(&places, B, 10..11);
        let (_, _of_a) = enter(&places, A, 3..4);
        assert!(places.end_of(lane(2)).is_cancelled(), "the newest");
        assert!(places.lock().long.iter().flatten().any(|long| long.turn == lane(1)), "the older is known");
    }

    #[tokio::test]
    async fn nobody_enters_or_waits_while_it_is_paused() {
        let places = Places::new(1);
        let (held, mut waiting) = enter(&places, A, [1, 2]);
        places.set(4, true);
        assert!((&mut waiting[0]).now_or_never().unwrap().is_none());
        assert!(places.enter(lane(3), A).now_or_never().unwrap().is_none());
        places.set(4, false);
        assert_eq!(enter(&places, B, 10..13).0.len(), 3);
        drop(held);
    }
}
