//! Batches: what the answer to one means for each of its deliveries, and the memory that they may take
//! (`docs/reference/webhooks.md#batches`).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use longshore_domain::webhook::lane::{Batch, Batched, End, Outcome};
use longshore_kernel::ids::{BatchId, EventId};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What the bodies of batches may take of a process, in KiB, and one of them at most.
const ROOM: usize = 32 * 1024;
const MOST: u32 = 1_024;

/// The memory of a batch.
pub(super) type Room = OwnedSemaphorePermit;

/// The memory for the bodies of batches, from before they are formed until their outcomes are recorded.
#[derive(Clone, Debug)]
pub(super) struct Rooms(Arc<Semaphore>);

impl Default for Rooms {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM)))
    }
}

impl Rooms {
    /// Takes the memory of the largest batch, if it is there.
    pub(super) fn room(&self) -> Option<Room> {
        Arc::clone(&self.0).try_acquire_many_owned(MOST).ok()
    }
}

/// Leaves of the memory of the largest batch what so many bytes take.
pub(super) fn fit(mut room: Room, bytes: usize) -> Room {
    let spare = room.num_permits().saturating_sub(bytes.div_ceil(1_024));
    drop(room.split(spare));
    room
}

/// What came back for a batch.
#[derive(Debug)]
pub(super) struct Answered<'a> {
    pub(super) status: Option<u16>,
    pub(super) is_delivered: bool,
    /// What was read of the body.
    pub(super) body: &'a [u8],
    /// That is all of it.
    pub(super) is_whole: bool,
}

/// The answer of a receiver that took some events only: the `webhookId` of each of the others.
#[derive(Deserialize)]
struct NotAll {
    failed: Vec<serde_json::Value>,
}

/// What becomes of the delivery of each of these events; `failed` is what becomes of one that is tried again.
pub(super) fn ends(
    batch: &Batch,
    events: &[Option<EventId>],
    answered: &Answered<'_>,
    failed: End,
    ordered: bool,
) -> Vec<(End, Batched)> {
    let one = |end, next| (end, Batched { sent: batch.id, next, speaks: false });
    let mut ends: Vec<(End, Batched)> = if answered.is_delivered {
        match refused(events, answered, ordered) {
            Refused::These(refused) => {
                let next = BatchId::new();
                let end = |refused| if refused { one(failed, next) } else { one(End::Delivered, batch.id) };
                refused.into_iter().map(end).collect()
            }
            // by themselves: it is not known which of them
            Refused::Unknown => events.iter().map(|_| one(failed, BatchId::new())).collect(),
        }
    } else if events.len() > 1 && divides(answered.status, batch.last_status) {
        let halves = [BatchId::new(), BatchId::new()];
        let half = |index| halves[usize::from(index >= events.len().div_ceil(2))];
        (0..events.len()).map(|index| one(End::Divided, half(index))).collect()
    } else {
        events.iter().map(|_| one(failed, batch.id)).collect()
    };
    // the call went well if it was of use
    let speaks = ends.iter().position(|(end, _)| *end == End::Delivered).unwrap_or(0);
    if let Some((_, of)) = ends.get_mut(speaks) {
        of.speaks = true;
    }
    ends
}

/// Whether a batch is divided: the answer is about its content, and the last one was, too; or it is too large.
fn divides(status: Option<u16>, last: Option<u16>) -> bool {
    let is_about_content = |status: Option<u16>| {
        status.is_some_and(|status| {
            status == 500
                || ((400..500).contains(&status)
                    && !matches!(status, 401 | 403 | 404 | 408 | 410 | 425 | 429))
        })
    };
    status == Some(413) || (is_about_content(status) && is_about_content(last))
}

/// The halves of batches that were divided under a lease: the other one, and whether that has failed.
#[derive(Debug, Default)]
pub(super) struct Halves(Mutex<HashMap<BatchId, (BatchId, Option<bool>)>>);

impl Halves {
    /// Has the outcomes of a call say nothing to the breaker where only one of two halves has failed: that is about its content.
    pub(super) fn weigh(&self, outcomes: &mut [Outcome]) {
        let Some(sent) = outcomes.iter().find_map(|outcome| Some(outcome.batch?.sent)) else { return };
        let has_failed = outcomes.iter().all(|outcome| outcome.end != End::Delivered);
        let mut halves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let half = halves.remove(&sent);
        if let Some((other, _)) = half
            && let Some((_, of_this)) = halves.get_mut(&other)
        {
            *of_this = Some(has_failed);
        }
        let is_silent =
            has_failed && half.is_some_and(|(_, other_has_failed)| other_has_failed != Some(true));
        for of in outcomes.iter_mut().filter_map(|outcome| outcome.batch.as_mut()) {
            of.speaks &= !is_silent;
        }
        if let [first, .., last] = outcomes
            && first.end == End::Divided
            && let (Some(first), Some(last)) = (first.batch, last.batch)
        {
            halves.extend([(first.next, (last.next, None)), (last.next, (first.next, None))]);
        }
    }
}

/// What a receiver that answered 2xx did not take.
#[derive(Debug, PartialEq)]
enum Refused {
    /// True for each of these.
    These(Vec<bool>),
    /// Some of them: the answer was cut off.
    Unknown,
}

fn refused(events: &[Option<EventId>], answered: &Answered<'_>, ordered: bool) -> Refused {
    let Ok(NotAll { failed }) = serde_json::from_slice(answered.body) else {
        let begins = answered.body.trim_ascii_start().starts_with(b"{");
        let names = answered.body.windows(br#""failed""#.len()).any(|bytes| bytes == br#""failed""#);
        let is_cut_off = !answered.is_whole && begins && names;
        return if is_cut_off { Refused::Unknown } else { Refused::These(vec![false; events.len()]) };
    };
    let failed: HashSet<EventId> = failed.iter().filter_map(|id| EventId::parse(id.as_str()?)).collect();
    let mut before = false;
    let refused = events.iter().map(|event| {
        let is_named = event.is_some_and(|event| failed.contains(&event));
        before = is_named || (ordered && before);
        before
    });
    Refused::These(refused.collect())
}
