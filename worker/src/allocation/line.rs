//! Places that wait for the allocator. Organisations take turns, and none has all of what works at once: so another, with one place,
//! need not wait for one with a thousand.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use longshore_domain::expedition::allocation::{Due, Place};
use longshore_kernel::ids::OrganisationId;
use tokio::time::Instant;

/// How long locks are waited for at first. It doubles each time that a place fails, so that one whose rows are locked again and again
/// gets its turn.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long a place is left alone that has failed; it doubles as well.
const BACK_OFF: Duration = Duration::from_secs(1);

/// How often both double.
const DOUBLINGS: u32 = 3;

/// The line.
#[derive(Debug)]
pub(super) struct Line {
    at_once: usize,
    /// Organisations with a place that waits, each once; the next is the first.
    ring: VecDeque<OrganisationId>,
    waiting: HashMap<OrganisationId, VecDeque<Place>>,
    /// What waits or is worked in.
    known: HashSet<Place>,
    working: HashMap<OrganisationId, usize>,
    failed: HashMap<Place, Failed>,
}

/// A place that has failed.
#[derive(Clone, Copy, Debug)]
struct Failed {
    times: u32,
    /// It is left alone until then.
    until: Instant,
}

/// How the work of one transaction in a place ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nothing more is known to be due.
    Done,
    /// More is due.
    More,
    /// It failed, or a lock was held for too long.
    Failed,
}

impl Line {
    /// A line for transactions of which so many run at once.
    pub(super) fn new(at_once: usize) -> Self {
        Self {
            at_once,
            ring: VecDeque::new(),
            waiting: HashMap::new(),
            known: HashSet::new(),
            working: HashMap::new(),
            failed: HashMap::new(),
        }
    }

    /// Adds what is due and not known yet, except for what has just failed.
    pub(super) fn add(&mut self, due: impl IntoIterator<Item = Due>, now: Instant) {
        // one that is not due any more is forgotten
        self.failed.retain(|_, failed| now < failed.until + doubled(BACK_OFF, DOUBLINGS));
        for due in due {
            if self.failed.get(&due.place).is_none_or(|failed| failed.until <= now) {
                self.join(due);
            }
        }
    }

    /// The place to work in next, and how long it may wait for locks; nothing while enough is worked in.
    pub(super) fn begin_next(&mut self) -> Option<(Due, Duration)> {
        for _ in 0..self.ring.len() {
            let organisation = self.ring.pop_front()?;
            if !self.may_begin(organisation) {
                self.ring.push_back(organisation);
                continue;
            }
            let Some(waiting) = self.waiting.get_mut(&organisation) else { continue };
            let place = waiting.pop_front();
            if waiting.is_empty() {
                self.waiting.remove(&organisation);
            } else {
                self.ring.push_back(organisation);
            }
            if let Some(place) = place {
                *self.working.entry(organisation).or_default() += 1;
                let times = self.times_failed(place);
                return Some((Due { organisation, place }, doubled(PATIENCE, times)));
            }
        }
        None
    }

    /// A transaction that [`Self::begin_next`] has named has ended.
    pub(super) fn end(&mut self, due: Due, ended: Ended, now: Instant) {
        if let Some(working) = self.working.get_mut(&due.organisation) {
            *working -= 1;
            if *working == 0 {
                self.working.remove(&due.organisation);
            }
        }
        self.known.remove(&due.place);
        match ended {
            Ended::Failed => {
                let times = self.times_failed(due.place);
                let until = now + doubled(BACK_OFF, times);
                self.failed.insert(due.place, Failed { times: times + 1, until });
            }
            Ended::Done => {
                self.failed.remove(&due.place);
            }
            // behind the others of its organisation
            Ended::More => {
                self.failed.remove(&due.place);
                self.join(due);
            }
        }
    }

    fn times_failed(&self, place: Place) -> u32 {
        self.failed.get(&place).map_or(0, |failed| failed.times)
    }

    fn join(&mut self, Due { organisation, place }: Due) {
        if !self.known.insert(place) {
            return;
        }
        let waiting = self.waiting.entry(organisation).or_default();
        if waiting.is_empty() {
            self.ring.push_back(organisation);
        }
        waiting.push_back(place);
    }

    /// The last that is free is for an organisation that has none.
    fn may_begin(&self, organisation: OrganisationId) -> bool {
        let free = self.at_once.saturating_sub(self.working.values().sum());
        free > 1 || (free == 1 && !self.working.contains_key(&organisation))
    }
}

fn doubled(first: Duration, times: u32) -> Duration {
    first * 2_u32.pow(times.min(DOUBLINGS))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const NOISY: u128 = 1;
    const QUIET: u128 = 2;

    fn due(organisation: u128, wms: u128) -> Due {
        let place =
            Place { warehouse: Uuid::from_u128(organisation).into(), wms: Uuid::from_u128(wms).into() };
        Due { organisation: Uuid::from_u128(organisation).into(), place }
    }

    /// The places to work in next, as long as there are some.
    fn begin(line: &mut Line) -> Vec<Due> {
        std::iter::from_fn(|| line.begin_next().map(|(due, _)| due)).collect()
    }

    #[test]
    fn an_organisation_with_one_place_does_not_wait_for_one_with_a_thousand() {
        let (mut line, now) = (Line::new(4), Instant::now());
        line.add((0..1_000).map(|wms| due(NOISY, wms)), now);
        let first = begin(&mut line);
        assert_eq!(first, [due(NOISY, 0), due(NOISY, 1), due(NOISY, 2)], "one is left to others");
        line.add([due(QUIET, 0)], now);
        assert_eq!(begin(&mut line), [due(QUIET, 0)]);
        line.end(due(QUIET, 0), Ended::Done, now);
        // also once more while the first are still worked in
        line.add([due(QUIET, 1)], now);
        assert_eq!(begin(&mut line), [due(QUIET, 1)]);
        assert_eq!(begin(&mut line), []);
    }

    #[test]
    fn organisations_take_turns_and_so_do_their_places() {
        let (mut line, now) = (Line::new(1), Instant::now());
        line.add([due(NOISY, 0), due(NOISY, 1), due(NOISY, 2), due(QUIET, 0)], now);
        let mut began = Vec::new();
        while let Some((due, _)) = line.begin_next() {
            began.push(due);
            // the first has more to do, once
            let is_first = began.len() == 1;
            line.end(due, if is_first { Ended::More } else { Ended::Done }, now);
        }
        let expected = [due(NOISY, 0), due(QUIET, 0), due(NOISY, 1), due(NOISY, 2), due(NOISY, 0)];
        assert_eq!(began, expected);
    }

    #[test]
    fn a_place_is_worked_in_once_at_a_time() {
        let (mut line, now) = (Line::new(4), Instant::now());
        line.add([due(NOISY, 0), due(NOISY, 0)], now);
        assert_eq!(begin(&mut line), [due(NOISY, 0)]);
        line.add([due(NOISY, 0)], now);
        assert_eq!(begin(&mut line), []);
        line.end(due(NOISY, 0), Ended::Done, now);
        line.add([due(NOISY, 0)], now);
        assert_eq!(begin(&mut line), [due(NOISY, 0)]);
    }

    #[test]
    fn a_place_that_fails_waits_longer_each_time_and_holds_up_no_other() {
        let (mut line, mut now) = (Line::new(2), Instant::now());
        for (patience, back_off) in [(100, 1), (200, 2), (400, 4), (800, 8), (800, 8)] {
            line.add([due(NOISY, 0), due(NOISY, 1)], now);
            let (failing, waits) = line.begin_next().unwrap();
            assert_eq!((failing, waits), (due(NOISY, 0), Duration::from_millis(patience)));
            line.end(failing, Ended::Failed, now);
            // its sister goes on
            let (sister, waits) = line.begin_next().unwrap();
            assert_eq!((sister, waits), (due(NOISY, 1), PATIENCE));
            line.end(sister, Ended::Done, now);
            now += Duration::from_secs(back_off);
            line.add([due(NOISY, 0)], now - Duration::from_millis(1));
            assert_eq!(begin(&mut line), [], "it is left alone for {back_off} s");
        }
        // it succeeds, and is as good as new
        line.add([due(NOISY, 0)], now);
        let (due_again, _) = line.begin_next().unwrap();
        line.end(due_again, Ended::Done, now);
        line.add([due(NOISY, 0)], now);
        assert_eq!(line.begin_next().unwrap().1, PATIENCE);
    }
}
