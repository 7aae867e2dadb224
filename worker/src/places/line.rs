//! Turns that wait for a place. Organisations take turns.

use std::collections::{HashMap, HashSet, VecDeque};

use tokio::sync::oneshot;
use uuid::Uuid;

use longshore_kernel::ids::OrganisationId;

/// The line. Each organisation with a waiting turn is in the ring once.
#[derive(Debug, Default)]
pub(super) struct Line {
    ring: VecDeque<OrganisationId>,
    organisations: HashMap<OrganisationId, VecDeque<(Uuid, oneshot::Sender<()>)>>,
    turns: HashSet<Uuid>,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn has(&self, turn: Uuid) -> bool {
        self.turns.contains(&turn)
    }

    pub(super) fn is_empty_for(&self, organisation: OrganisationId) -> bool {
        !self.organisations.contains_key(&organisation)
    }

    pub(super) fn join(&mut self, organisation: OrganisationId, turn: Uuid, tell: oneshot::Sender<()>) {
        if self.is_empty_for(organisation) {
            self.ring.push_back(organisation);
        }
        self.organisations.entry(organisation).or_default().push_back((turn, tell));
        self.turns.insert(turn);
    }

    /// The first waiting turn of the next organisation that may enter.
    pub(super) fn next(
        &mut self,
        may: impl Fn(OrganisationId) -> bool,
    ) -> Option<(OrganisationId, oneshot::Sender<()>)> {
        for _ in 0..self.ring.len() {
            let organisation = self.ring.pop_front()?;
            if !may(organisation) {
                self.ring.push_back(organisation);
                continue;
            }
            let Some(waiting) = self.organisations.get_mut(&organisation) else { continue };
            let first = waiting.pop_front();
            if waiting.is_empty() {
                self.organisations.remove(&organisation);
            } else {
                self.ring.push_back(organisation);
            }
            if let Some((turn, tell)) = first {
                self.turns.remove(&turn);
                return Some((organisation, tell));
            }
        }
        None
    }

    /// Removes a turn that no longer waits.
    pub(super) fn leave(&mut self, organisation: OrganisationId, turn: Uuid) {
        if !self.turns.remove(&turn) {
            return;
        }
        if let Some(waiting) = self.organisations.get_mut(&organisation) {
            waiting.retain(|(waits, _)| *waits != turn);
            if waiting.is_empty() {
                self.forget(organisation);
            }
        }
    }

    /// Turns away the last of a long line: of the first organisation found that has at least the average
    /// number waiting.
    pub(super) fn turn_away(&mut self) {
        let share = self.len() / self.organisations.len().max(1);
        let Some((organisation, waiting)) =
            self.organisations.iter_mut().find(|(_, waiting)| waiting.len() >= share)
        else {
            return;
        };
        let organisation = *organisation;
        if let Some((turn, _)) = waiting.pop_back() {
            self.turns.remove(&turn);
        }
        if waiting.is_empty() {
            self.forget(organisation);
        }
    }

    /// The organisations with waiting turns, in the order in which they are served.
    pub(super) fn organisations(&self) -> impl Iterator<Item = OrganisationId> {
        self.ring.iter().copied()
    }

    /// Turns everyone away.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn forget(&mut self, organisation: OrganisationId) {
        self.organisations.remove(&organisation);
        self.ring.retain(|waiting| *waiting != organisation);
    }
}
