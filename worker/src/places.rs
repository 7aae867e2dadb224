//! Decides which turns may run now. A process has a number of places for each queue, and every turn of a lane
//! or at a partner takes one.
//!
//! A destination or partner that hangs keeps its place until the call times out, and an organisation may have
//! any number of them. To keep them from delaying others:
//!
//! - **Organisations take turns.** Waiting turns are grouped by organisation, and each place that becomes
//!   free goes to the next organisation, however many turns the others have waiting.
//! - **Each has a share and may borrow the rest.** An organisation may take one more place while it holds no
//!   more than [`LENT`](state::LENT) times as many as are free. On its own it gets nearly all of them, yet another
//!   organisation finds a free one at once. (This is the dynamic threshold by which switches share their
//!   memory.)
//! - **Slow turns have a limit.** A turn is *slow* while it only waits for answers, or if the last turn of
//!   its lane ended slow or with a failure. Turns known to be slow take up to three quarters of the places, and
//!   leave at least one, unless there is only one. A turn that begins to hang counts as slow within a fraction of
//!   a second.
//! - **Few turns begin at once.** Beginning costs more than waiting: a lease, a connection, a signature. At
//!   most [`BEGINNING`](state::BEGINNING) turns of one organisation begin at a time, so that another's first turn does not
//!   queue behind a thousand.
//! - **Long turns end early.** A turn at a partner may last for minutes. While an organisation with fewer
//!   places waits, the newest turns of the one that holds most are asked to end ([`Places::of_long_turns`]).
//!   The older ones continue, so each of them completes.
//!
//! Places do not decide what is due: a turn that gets no place, or has waited too long for one, stays due in
//! Postgres, and the dispatcher puts it on the queue again.

mod line;
mod place;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) use self::place::Place;
use self::place::Waiting;
use self::state::{LongTurn, State};

use longshore_kernel::ids::OrganisationId;

/// How long a turn waits for a place before the dispatcher has to queue it again.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Turns that wait in a process; above this number, the organisation with the longest line loses its last
/// one.
pub const WAITING: usize = 4_096;

/// The places of a process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Places(Arc<Mutex<State>>);

/// How the places are used at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// The number of places.
    pub places: usize,
    /// Places held by turns that make progress.
    pub quick: usize,
    /// Places held by turns that wait for answers, or whose lane was slow or failed last time.
    pub slow: usize,
    /// Turns that wait for a place.
    pub waiting: usize,
}

impl Places {
    /// Creates this many places, at least one.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(State::new(places))))
    }

    /// Creates places for turns that may last for minutes and can be asked to end.
    #[must_use]
    pub fn of_long_turns(places: usize) -> Self {
        let new = Self::new(places);
        new.lock().long = Some(Vec::new());
        new
    }

    /// Changes the number of places; while paused, none is taken. Running turns continue.
    pub fn set(&self, places: usize, paused: bool) {
        let mut state = self.lock();
        state.places = places.max(1);
        state.paused = paused;
        if paused {
            // they stay due, and the dispatcher finds them when the queue resumes
            state.quick.line.clear();
            state.slow.line.clear();
        }
        state.admit();
    }

    /// Whether none is taken now.
    #[must_use]
    pub(crate) fn is_paused(&self) -> bool {
        self.lock().paused
    }

    /// How the places are used.
    #[must_use]
    pub fn in_use(&self) -> Use {
        let state = self.lock();
        Use { places: state.places, quick: state.quick.held, slow: state.slow.held, waiting: state.waiting() }
    }

    /// A token that is cancelled when a long turn is asked to end. A turn without a place is never asked.
    #[must_use]
    pub fn end_of(&self, turn: Uuid) -> CancellationToken {
        let state = self.lock();
        let long = state.long.iter().flatten().find(|long| long.turn == turn);
        long.map_or_else(CancellationToken::new, |long| long.end.clone())
    }

    /// Waits for a place for a turn. `None` if the turn already waits, there is no room to wait, or it took
    /// too long.
    pub(crate) async fn enter(&self, turn: Uuid, organisation: OrganisationId) -> Option<Place> {
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
                let (tell, signal) = oneshot::channel();
                state.kind(slow).line.join(organisation, turn, tell);
                if state.waiting() > WAITING {
                    // slow turns can best wait a second longer
                    let from_slow = state.slow.line.len() >= state.quick.line.len();
                    state.kind(from_slow).line.turn_away();
                }
                state.admit();
                (slow, Some(signal))
            }
        };
        if let Some(signal) = entered {
            let waiting = Waiting { places: self, turn, organisation, slow, signal: Some(signal) };
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

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::BoxFuture;

    use super::state::BEGINNING;
    use super::*;

    fn lane(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    const A: OrganisationId = OrganisationId::from_u128(1 << 100);
    const B: OrganisationId = OrganisationId::from_u128(2 << 100);

    /// Returns the turns that enter as soon as those before them have begun, and those that wait.
    fn enter(
        places: &Places,
        organisation: OrganisationId,
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

    /// Makes lanes count as slow.
    fn make_slow(places: &Places, organisation: OrganisationId, lanes: impl IntoIterator<Item = u128>) {
        for n in lanes {
            let (mut entered, _) = enter(places, organisation, [n]);
            entered[0].remember(true);
        }
    }

    #[tokio::test]
    async fn a_single_organisation_gets_nearly_all_places_and_a_second_gets_one_at_once() {
        let places = Places::new(1_024);
        let (alone, waiting) = enter(&places, A, 0..2_000);
        assert!(alone.len() > 900, "{}", alone.len());
        assert_eq!(alone.len() + waiting.len(), 2_000);
        let (other, _) = enter(&places, B, 5_000..5_064);
        assert_eq!(other.len(), 64);
    }

    #[tokio::test]
    async fn few_turns_of_one_organisation_begin_at_once_without_delaying_another() {
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
    async fn a_single_organisation_may_take_all_of_a_few_places() {
        let places = Places::new(4);
        assert_eq!(enter(&places, A, 0..9).0.len(), 4);
    }

    #[tokio::test]
    async fn a_free_place_goes_to_the_next_organisation_however_many_turns_another_has_waiting() {
        let places = Places::new(4);
        let (mut held, of_a) = enter(&places, A, 0..100);
        let (_, mut of_b) = enter(&places, B, 200..202);
        held.pop();
        held.pop();
        // A has waited longer, and gets one of the two
        let b = of_b.iter_mut().filter_map(|entering| entering.now_or_never().flatten()).count();
        assert_eq!(b, 1);
        drop(of_a);
    }

    #[tokio::test]
    async fn turns_known_to_be_slow_leave_a_quarter_to_the_others() {
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
    async fn turns_known_to_be_slow_leave_one_of_few_places() {
        for (few, slow) in [(2, 1), (3, 2), (4, 3), (7, 6), (8, 6)] {
            let places = Places::new(few);
            make_slow(&places, A, 0..20);
            let (of_a, _waiting) = enter(&places, A, 0..20);
            assert_eq!((of_a.len(), places.in_use().slow), (slow, slow), "of {few} places");
            assert_eq!(enter(&places, B, 100..101).0.len(), 1, "of {few} places");
        }
        // a single place has to serve all
        let places = Places::new(1);
        make_slow(&places, A, 0..2);
        assert_eq!(enter(&places, A, 0..2).0.len(), 1);
    }

    #[tokio::test]
    async fn a_turn_that_hangs_counts_as_slow_and_is_remembered_until_it_recovers() {
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
    async fn a_lane_waits_once_and_passes_its_place_on_if_it_gives_up() {
        let places = Places::new(1);
        let (held, mut first) = enter(&places, A, [1, 2]);
        assert_eq!(enter(&places, A, [2]).1.len(), 0, "it waits already");
        let (_, mut second) = enter(&places, A, [3]);
        // the place is given to the first, which is dropped before it notices
        drop(held);
        first.clear();
        assert!((&mut second[0]).now_or_never().flatten().is_some());
        assert_eq!(places.in_use().waiting, 0);
    }

    #[tokio::test]
    async fn when_too_many_wait_the_longest_line_loses_its_last() {
        let places = Places::new(1);
        let (_held, mut of_a) = enter(&places, A, 0..=u128::try_from(WAITING).unwrap());
        let (_, mut of_b) = enter(&places, B, 10_000..10_002);
        assert_eq!(places.in_use().waiting, WAITING);
        assert!(of_b.iter_mut().all(|entering| entering.now_or_never().is_none()));
        assert_eq!(of_a.iter_mut().filter_map(FutureExt::now_or_never).count(), 2, "turned away");
    }

    #[tokio::test]
    async fn the_newest_long_turns_of_the_largest_holder_are_asked_to_end_for_waiting_ones() {
        const C: OrganisationId = OrganisationId::from_u128(3 << 100);
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
    async fn no_turn_enters_or_waits_while_the_queue_is_paused() {
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
