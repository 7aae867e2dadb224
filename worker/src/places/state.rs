//! Who holds the places of a process and who waits for them: the rules of [`Places`](super::Places), without its lock.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::line::Line;

use longshore_kernel::ids::OrganisationId;

/// An organisation may take one more place while it holds at most this many times the number of free ones.
pub(super) const LENT: usize = 8;

/// Turns of one organisation that begin at the same time. A turn begins within about a millisecond, so this
/// does not limit an organisation that is alone.
pub(super) const BEGINNING: usize = 48;

/// How long a lane is remembered as slow.
const REMEMBERED: Duration = Duration::from_mins(10);

/// Lanes remembered as slow; above this number, expired entries are removed.
const SLOW_LANES: usize = 20_000;

#[derive(Debug)]
pub(super) struct State {
    pub(super) places: usize,
    pub(super) paused: bool,
    pub(super) quick: Kind,
    pub(super) slow: Kind,
    /// Turns that begin, by organisation.
    pub(super) beginning: HashMap<OrganisationId, usize>,
    /// When a lane stops counting as slow.
    known: HashMap<Uuid, Instant>,
    /// Turns that can be asked to end, oldest first; `None` where turns are short.
    pub(super) long: Option<Vec<LongTurn>>,
}

#[derive(Debug)]
pub(super) struct LongTurn {
    pub(super) organisation: OrganisationId,
    pub(super) turn: Uuid,
    pub(super) end: CancellationToken,
}

/// The slow turns, or the others.
#[derive(Debug, Default)]
pub(super) struct Kind {
    pub(super) held: usize,
    by_organisation: HashMap<OrganisationId, usize>,
    pub(super) line: Line,
}

impl Kind {
    fn holds(&self, organisation: OrganisationId) -> usize {
        self.by_organisation.get(&organisation).copied().unwrap_or(0)
    }

    pub(super) fn take(&mut self, organisation: OrganisationId) {
        self.held += 1;
        *self.by_organisation.entry(organisation).or_default() += 1;
    }

    pub(super) fn leave(&mut self, organisation: OrganisationId) {
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
    pub(super) fn new(places: usize) -> Self {
        Self {
            places: places.max(1),
            paused: false,
            quick: Kind::default(),
            slow: Kind::default(),
            beginning: HashMap::new(),
            known: HashMap::new(),
            long: None,
        }
    }

    fn free(&self) -> usize {
        self.places.saturating_sub(self.quick.held + self.slow.held)
    }

    /// Places free for turns that are known to be slow. A quarter is left to the others, at least one; a single place has to serve all.
    fn free_for_slow(&self) -> usize {
        let left = (self.places / 4).max(1);
        let share = self.places.saturating_sub(left).max(1);
        share.saturating_sub(self.slow.held).min(self.free())
    }

    pub(super) fn may_enter(&self, organisation: OrganisationId, slow: bool) -> bool {
        let (free, held) = if slow {
            (self.free_for_slow(), self.slow.holds(organisation))
        } else {
            (self.free(), self.quick.holds(organisation) + self.slow.holds(organisation))
        };
        let beginning = self.beginning.get(&organisation).copied().unwrap_or(0);
        // a long turn spends nearly all its time waiting
        let may_begin = self.long.is_some() || beginning < BEGINNING;
        !self.paused && may_begin && free > 0 && held <= LENT * free
    }

    /// A turn takes a place and begins.
    pub(super) fn take(&mut self, organisation: OrganisationId, slow: bool) {
        self.kind(slow).take(organisation);
        *self.beginning.entry(organisation).or_default() += 1;
    }

    /// A turn has begun, or has ended before it began.
    pub(super) fn began(&mut self, organisation: OrganisationId) {
        if let Some(beginning) = self.beginning.get_mut(&organisation) {
            *beginning -= 1;
            if *beginning == 0 {
                self.beginning.remove(&organisation);
            }
        }
    }

    pub(super) fn kind(&mut self, slow: bool) -> &mut Kind {
        if slow { &mut self.slow } else { &mut self.quick }
    }

    /// Gives free places to waiting turns.
    pub(super) fn admit(&mut self) {
        for slow in [false, true] {
            loop {
                let mut line = std::mem::take(&mut self.kind(slow).line);
                // a place that a turn was asked to give up goes to an organisation with the fewest
                let is_long = self.long.is_some();
                let holds = |waiting| self.quick.holds(waiting);
                let fewest = if is_long { line.organisations().map(holds).min() } else { None };
                let next = line.next(|organisation| {
                    self.may_enter(organisation, slow)
                        && fewest.is_none_or(|fewest| holds(organisation) == fewest)
                });
                self.kind(slow).line = line;
                let Some((organisation, tell)) = next else { break };
                // a turn that has given up takes no place
                if tell.send(()).is_ok() {
                    self.take(organisation, slow);
                }
            }
        }
        self.ask_for_room();
    }

    /// Asks the newest turn of the organisation that holds most to end, once for each waiting one that holds
    /// fewer.
    fn ask_for_room(&self) {
        let Some(long) = &self.long else { return };
        let (asked, mut left): (Vec<&LongTurn>, Vec<_>) =
            long.iter().partition(|turn| turn.end.is_cancelled());
        // a place that was given just now has no turn yet
        let mut held = self.quick.by_organisation.clone();
        for turn in &asked {
            held.entry(turn.organisation).and_modify(|held| *held = held.saturating_sub(1));
        }
        // places that are free, or whose turns have already been asked
        let mut to_come = self.free() + asked.len();
        for waiting in self.quick.line.organisations() {
            let has = held.get(&waiting).copied().unwrap_or(0);
            let holders = left
                .iter()
                .enumerate()
                .map(|(at, turn)| (held.get(&turn.organisation).copied().unwrap_or(0), at));
            // `max_by_key` returns the last of equals, which is the newest
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

    pub(super) fn is_known(&self, turn: Uuid) -> bool {
        self.known.get(&turn).is_some_and(|until| Instant::now() < *until)
    }

    pub(super) fn remember(&mut self, turn: Uuid, slow: bool) {
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

    pub(super) fn waiting(&self) -> usize {
        self.quick.line.len() + self.slow.line.len()
    }
}
