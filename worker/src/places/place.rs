//! A place of a turn: one that it waits for, and one that it holds.

use tokio::sync::oneshot;
use uuid::Uuid;

use super::{PATIENCE, Places};
use longshore_kernel::ids::OrganisationId;

/// A turn that waits for a place. If it gives up, it leaves the line and passes on a place that it was just
/// given.
pub(super) struct Waiting<'p> {
    pub(super) places: &'p Places,
    pub(super) turn: Uuid,
    pub(super) organisation: OrganisationId,
    pub(super) slow: bool,
    pub(super) signal: Option<oneshot::Receiver<()>>,
}

impl Waiting<'_> {
    pub(super) async fn wait(mut self) -> Option<()> {
        let signal = self.signal.as_mut()?;
        let signal = tokio::time::timeout(PATIENCE, signal).await.ok()?;
        // given a place or turned away: in either case it has left the line
        self.signal = None;
        signal.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(mut signal) = self.signal.take() else { return };
        let mut state = self.places.lock();
        state.kind(self.slow).line.leave(self.organisation, self.turn);
        if signal.try_recv().is_ok() {
            state.kind(self.slow).leave(self.organisation);
            state.began(self.organisation);
            state.admit();
        }
    }
}

/// A place that a turn holds; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) places: Places,
    pub(super) turn: Uuid,
    pub(super) organisation: OrganisationId,
    pub(super) begins: bool,
    pub(super) slow: bool,
    /// How the lane is remembered when the turn ends.
    pub(super) was_slow: bool,
}

impl Place {
    /// Counts the turn among the slow ones, or among the others. A turn that becomes slow counts as such even
    /// if the slow ones then exceed their share; until they no longer do, no further slow turn enters.
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

    /// The turn has begun: it has an answer or waits for one. Another turn of the organisation may begin.
    pub(crate) fn began(&mut self) {
        if std::mem::take(&mut self.begins) {
            let mut state = self.places.lock();
            state.began(self.organisation);
            state.admit();
        }
    }

    /// Whether the turn counts as slow.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow
    }

    /// How the next turn of the lane counts when it enters.
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
