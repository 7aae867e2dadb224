//! The warm lanes of a process, and what becomes of each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_domain::webhook::lane::{self, AT_ONCE, Due, Found, Lease, Looked};
use longshore_kernel::gather::Gather;
use longshore_kernel::ids::{OrganisationId, WebhookId};
use longshore_kernel::queue::Notice;
use longshore_kernel::services::Services;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::{MAKES_ROOM, PLACES, give_back, look, turn};
use crate::lanes::holder::{Holder, Registered};
use crate::lanes::keeper::{Keeper, LeaseState, MARGIN};
use crate::lanes::turn::{First, LONGEST};
use crate::lanes::{Begun, Held, LaneContext};

/// The warm lanes of the process; cheap to clone. None is kept until [`keep`](super::keep).
#[derive(Clone, Debug)]
pub(in crate::lanes) struct Warm(pub(super) Arc<Table>);

#[derive(Debug)]
pub(in crate::lanes) struct Table {
    lanes: Mutex<HashMap<WebhookId, Kept>>,
    pub(super) open: AtomicBool,
    pub(super) holder: Holder,
    pub(super) look: Gather<Arc<Lease>, Option<Looked>>,
    pub(super) tasks: TaskTracker,
}

/// A lane that stays leased.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) held: Held,
    pub(super) state: State,
    /// When it last had something to send.
    pub(super) used: Instant,
    /// Until when a look has renewed the lease, also beside a turn.
    pub(super) renewed: Instant,
}

#[derive(Debug)]
pub(super) enum State {
    /// Without a turn. The lease is valid until then; with what a turn that waits for its place begins.
    Idle(Instant, Option<Start>),
    /// A turn runs under the lease.
    Busy(LeaseState),
}

/// What a turn begins with.
#[derive(Debug, Default)]
pub(super) struct Start {
    notices: Vec<Notice>,
    looks: bool,
}

impl Warm {
    pub(in crate::lanes) fn new(services: &Services) -> Self {
        let db = services.db.clone();
        let look = Gather::start(PLACES, 1, move |leases: Vec<Arc<Lease>>| {
            let db = db.clone();
            async move { lane::look(&db, &leases.iter().map(AsRef::as_ref).collect::<Vec<_>>()).await }
        });
        Self(Arc::new(Table {
            lanes: Mutex::default(),
            open: AtomicBool::new(false),
            holder: Holder::new(&services.queues),
            look,
            tasks: TaskTracker::new(),
        }))
    }

    pub(super) fn lanes(&self) -> MutexGuard<'_, HashMap<WebhookId, Kept>> {
        self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the lane of a turn that has ended; `false` if its lease must be given back.
    pub(in crate::lanes) fn keep(&self, context: &LaneContext, held: &Held, until: Instant) -> bool {
        let now = Instant::now();
        let webhook = held.lease.webhook;
        let mut evicted = None;
        {
            let mut lanes = self.lanes();
            if !self.0.open.load(Ordering::Acquire) || now.saturating_duration_since(held.since) >= LONGEST {
                return false;
            }
            if let Some(kept) = lanes.get_mut(&webhook).filter(|kept| kept.is_of(held.lease.token)) {
                (kept.state, kept.used) = (State::Idle(until.max(kept.renewed), None), now);
                return true;
            }
            if lanes.len() >= PLACES && !lanes.contains_key(&webhook) {
                let places = lanes.iter().map(|(webhook, kept)| Place {
                    webhook: *webhook,
                    organisation: kept.held.lease.organisation,
                    unused: now.saturating_duration_since(kept.used),
                    is_idle: matches!(kept.state, State::Idle(_, None)),
                });
                let Some(gives_way) = that_gives_way(&places.collect::<Vec<_>>(), held.lease.organisation)
                else {
                    return false;
                };
                evicted = lanes.remove(&gives_way);
            }
            lanes.insert(
                webhook,
                Kept { held: held.clone(), state: State::Idle(until, None), used: now, renewed: until },
            );
        }
        let (context, held) = (context.clone(), held.clone());
        self.0.tasks.spawn(async move {
            if let Some(Kept { held, .. }) = evicted {
                give_back(&context, &[held]).await;
            }
            // what became due before this was announced to others, who found the lane leased
            let (webhook, token) = (held.lease.webhook, held.lease.token);
            context.warm.register(&[Registered { webhook, token, until }]).await;
            look(&context, vec![held]).await;
        });
        true
    }

    /// Keeps no more lanes. Under their lock: none is kept after this.
    pub(super) fn close(&self) {
        let _lanes = self.lanes();
        self.0.open.store(false, Ordering::Release);
    }

    /// Forgets a lane whose lease is about to be given back.
    pub(in crate::lanes) async fn forget(&self, webhook: WebhookId, token: i64) {
        if self.remove(webhook, token).is_some() {
            self.0.holder.unregister(&[(webhook, token)]).await;
        }
    }

    /// Registers leases, and takes back what was given back meanwhile.
    pub(super) async fn register(&self, leases: &[Registered]) {
        self.0.holder.register(leases).await;
        let gone: Vec<_> = {
            let lanes = self.lanes();
            let is_gone =
                |lease: &&Registered| !lanes.get(&lease.webhook).is_some_and(|kept| kept.is_of(lease.token));
            leases.iter().filter(is_gone).map(|lease| (lease.webhook, lease.token)).collect()
        };
        self.0.holder.unregister(&gone).await;
    }

    fn remove(&self, webhook: WebhookId, token: i64) -> Option<Kept> {
        let mut lanes = self.lanes();
        if lanes.get(&webhook)?.is_of(token) { lanes.remove(&webhook) } else { None }
    }

    /// Looks at a lane if it is warm and has no turn; `false` if it is not.
    pub(in crate::lanes) fn nudge(&self, context: &LaneContext, webhook: WebhookId) -> bool {
        let held = {
            let lanes = self.lanes();
            match lanes.get(&webhook) {
                Some(Kept { held, state: State::Idle(until, _), .. }) if is_valid(*until) => held.clone(),
                _ => return false,
            }
        };
        if held.lease.batches {
            // a batch may be full before its first delivery is due, which only the turn finds out
            return self.start(context, webhook, held.lease.token, None);
        }
        let context = context.clone();
        self.0.tasks.spawn(async move { look(&context, vec![held]).await });
        true
    }

    /// Has a turn of a warm lane begin with a notice, or with a look; `false` if the lane is not warm or has a turn.
    pub(super) fn start(
        &self,
        context: &LaneContext,
        webhook: WebhookId,
        token: i64,
        notice: Option<Notice>,
    ) -> bool {
        {
            let mut lanes = self.lanes();
            let Some(kept) = lanes.get_mut(&webhook).filter(|kept| kept.is_of(token)) else { return false };
            let State::Idle(until, waiting) = &mut kept.state else { return false };
            if !is_valid(*until) {
                return false;
            }
            let begins = waiting.is_none();
            let start = waiting.get_or_insert_default();
            match notice {
                Some(notice) if start.notices.len() < AT_ONCE => {
                    kept.used = Instant::now();
                    start.notices.push(notice);
                }
                _ => start.looks = true,
            }
            if !begins {
                return true;
            }
        }
        let context = context.clone();
        self.0.tasks.clone().spawn(async move { turn(&context, webhook, token).await });
        true
    }

    /// Begins the turn for which a lane has waited.
    pub(super) fn begin(
        &self,
        context: &LaneContext,
        webhook: WebhookId,
        token: i64,
    ) -> Option<(Begun, First)> {
        let mut lanes = self.lanes();
        let kept = lanes.get_mut(&webhook).filter(|kept| kept.is_of(token))?;
        let State::Idle(until, start) = &mut kept.state else { return None };
        let (until, Start { notices, looks }) = (*until, start.take()?);
        let held = kept.held.clone();
        let keeper = Keeper::start(context.services.db.clone(), Arc::clone(&held.lease), until);
        let standing = keeper.standing();
        let (entry, words) = context.running.enter(&held.lease, standing.clone());
        kept.state = State::Busy(standing);
        let due = notices.into_iter().map(Due::from).collect::<Vec<_>>();
        let found = (!due.is_empty()).then_some(Found { due, ..Found::default() });
        Some((Begun { held, keeper, entry, words }, First { found, looks }))
    }

    /// A turn got no place: what is due is found by the next look.
    pub(super) fn does_not_begin(&self, webhook: WebhookId, token: i64) {
        if let Some(kept) = self.lanes().get_mut(&webhook).filter(|kept| kept.is_of(token))
            && let State::Idle(_, start) = &mut kept.state
        {
            *start = None;
        }
    }

    /// Notes a renewal.
    pub(super) fn renewed(&self, webhook: WebhookId, token: i64, until: Instant) {
        if let Some(kept) = self.lanes().get_mut(&webhook).filter(|kept| kept.is_of(token)) {
            kept.renewed = kept.renewed.max(until);
            if let State::Idle(valid, _) = &mut kept.state {
                *valid = (*valid).max(until);
            }
        }
    }

    /// Takes lanes out that are idle and of which `ends` is true.
    pub(super) fn take_idle(&self, mut ends: impl FnMut(&Kept, Instant) -> bool) -> Vec<Held> {
        let mut lanes = self.lanes();
        let taken = lanes.extract_if(|_, kept| match &kept.state {
            State::Idle(until, _) => ends(kept, *until),
            State::Busy(_) => false,
        });
        taken.map(|(_, kept)| kept.held).collect()
    }
}

/// The place of a warm lane.
#[derive(Clone, Copy, Debug)]
struct Place {
    webhook: WebhookId,
    organisation: OrganisationId,
    unused: Duration,
    is_idle: bool,
}

/// The lane that gives way to one of an organisation when all places are taken: a lane of an organisation that has more of them,
/// or one of its own that was not used for a while. So each organisation has its share, however many lanes another one uses.
fn that_gives_way(places: &[Place], organisation: OrganisationId) -> Option<WebhookId> {
    let mut taken: HashMap<OrganisationId, usize> = HashMap::new();
    for place in places {
        *taken.entry(place.organisation).or_default() += 1;
    }
    let of = |organisation| taken.get(&organisation).copied().unwrap_or_default();
    let own = of(organisation);
    let gives_way = |place: &&Place| {
        let is_unused = place.organisation == organisation && place.unused >= MAKES_ROOM;
        place.is_idle && (is_unused || of(place.organisation) > own + 1)
    };
    let place = places.iter().filter(gives_way).max_by_key(|place| (of(place.organisation), place.unused))?;
    Some(place.webhook)
}

impl Kept {
    pub(super) fn is_of(&self, token: i64) -> bool {
        self.held.lease.token == token
    }
}

/// Whether a lease is valid now, with the margin of a call.
pub(super) fn is_valid(until: Instant) -> bool {
    Instant::now() + MARGIN < until
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: OrganisationId = OrganisationId::from_u128(1);
    const SMALL: OrganisationId = OrganisationId::from_u128(2);

    fn place(webhook: u128, organisation: OrganisationId, unused: u64) -> Place {
        let (webhook, unused) = (WebhookId::from_u128(webhook), Duration::from_millis(unused));
        Place { webhook, organisation, unused, is_idle: true }
    }

    #[test]
    fn a_lane_of_the_organisation_with_the_most_gives_way() {
        let places = [place(1, LARGE, 10), place(2, LARGE, 20), place(3, LARGE, 0), place(4, SMALL, 9_000)];
        assert_eq!(
            that_gives_way(&places, SMALL),
            Some(WebhookId::from_u128(2)),
            "used just now, but one of three"
        );
        assert_eq!(that_gives_way(&places, LARGE), None, "its own are in use, and the other has less");
        let busy = places.map(|place| Place { is_idle: false, ..place });
        assert_eq!(that_gives_way(&busy, SMALL), None);
    }

    #[test]
    fn with_equal_shares_an_organisation_replaces_its_own_unused_lane() {
        let places =
            [place(1, LARGE, 10), place(2, LARGE, 2_000), place(3, SMALL, 9_000), place(4, SMALL, 0)];
        assert_eq!(that_gives_way(&places, LARGE), Some(WebhookId::from_u128(2)));
        assert_eq!(that_gives_way(&places, SMALL), Some(WebhookId::from_u128(3)));
    }
}
