//! The deliveries that a lease has in hand, and those that it has just settled.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::batch::Halves;
use longshore_domain::webhook::lane::Due;
use longshore_kernel::ids::{BatchId, DeliveryId};

/// How long a settled delivery is remembered: longer than a notice may be on its way (`warm`).
const REMEMBERED: Duration = Duration::from_secs(10);

/// The deliveries of a lease, each in hand from its fetch or its notice until its outcome is known to be committed. A
/// delivery may be found twice, by a fetch and by its notice; for some seconds after its outcome, the ledger still
/// knows it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: Mutex<Entries>,
    closed: AtomicBool,
    settled: Notify,
    pub(super) halves: Halves,
}

#[derive(Debug, Default)]
struct Entries {
    /// With the failed attempts before this one.
    in_hand: HashMap<DeliveryId, usize>,
    /// The batches that were taken, each with one of its deliveries.
    batches: HashMap<BatchId, DeliveryId>,
    /// With the attempts until then, and when the last was settled.
    settled: HashMap<DeliveryId, (usize, Instant)>,
    /// When they were settled, oldest first.
    order: VecDeque<(Instant, DeliveryId)>,
}

impl Ledger {
    /// Adds a delivery that was found with so many failed attempts; `false` if it is in hand, or this attempt was made
    /// already.
    pub(super) fn take(&self, delivery: DeliveryId, attempts: usize) -> bool {
        let mut entries = self.lock();
        if entries.in_hand.contains_key(&delivery)
            || entries.settled.get(&delivery).is_some_and(|(made, _)| attempts < *made)
        {
            return false;
        }
        entries.in_hand.insert(delivery, attempts);
        true
    }

    /// Adds the deliveries of a batch; `false` if one of them is in hand.
    pub(super) fn take_batch(&self, batch: BatchId, due: &[Due]) -> bool {
        let mut entries = self.lock();
        if due.iter().any(|due| entries.in_hand.contains_key(&due.id)) {
            return false;
        }
        entries.in_hand.extend(due.iter().map(|due| (due.id, due.attempts)));
        // what has expired ends by itself
        let sent = due.iter().find(|due| due.event.is_some()).or(due.first());
        entries.batches.extend(sent.map(|due| (batch, due.id)));
        true
    }

    /// Removes deliveries that were not sent.
    pub(super) fn put_down(&self, deliveries: impl IntoIterator<Item = DeliveryId>) {
        let mut entries = self.lock();
        for delivery in deliveries {
            entries.in_hand.remove(&delivery);
        }
    }

    /// Removes deliveries whose outcomes are recorded. `closed` ends the turn, for example
    /// because its lease is lost or its webhook was disabled.
    pub(super) fn settle(&self, deliveries: impl IntoIterator<Item = DeliveryId>, closed: bool) {
        if closed {
            self.closed.store(true, Ordering::Release);
        }
        let now = Instant::now();
        {
            let mut entries = self.lock();
            for delivery in deliveries {
                if let Some(attempts) = entries.in_hand.remove(&delivery) {
                    entries.settled.insert(delivery, (attempts + 1, now));
                    entries.order.push_back((now, delivery));
                }
            }
        }
        self.settled.notify_one();
    }

    /// Forgets what was settled long ago. Not while a fetch is under way: it may return what was settled since it began.
    pub(super) fn forget(&self) {
        let now = Instant::now();
        let mut entries = self.lock();
        while let Some((at, delivery)) = entries.order.front().copied()
            && now.saturating_duration_since(at) > REMEMBERED
        {
            entries.order.pop_front();
            // it may have been settled once more since
            if entries.settled.get(&delivery).is_some_and(|(_, last)| *last == at) {
                entries.settled.remove(&delivery);
            }
        }
    }

    /// Waits until outcomes are recorded.
    pub(super) async fn settled(&self) {
        self.settled.notified().await;
    }

    /// Whether the turn must end.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether no delivery is in hand.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().in_hand.is_empty()
    }

    /// The deliveries in hand, and their batches.
    pub(super) fn in_hand(&self) -> (Vec<DeliveryId>, Vec<BatchId>) {
        let mut entries = self.lock();
        let Entries { in_hand, batches, .. } = &mut *entries;
        batches.retain(|_, delivery| in_hand.contains_key(delivery));
        (in_hand.keys().copied().collect(), batches.keys().copied().collect())
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_delivery_is_taken_once_an_attempt() {
        let (ledger, delivery) = (Ledger::default(), DeliveryId::from_u128(1));
        assert!(ledger.take(delivery, 0));
        assert!(!ledger.take(delivery, 0), "in hand");
        ledger.settle([delivery], false);
        assert!(!ledger.take(delivery, 0), "settled");
        assert!(ledger.take(delivery, 1), "the next attempt");
        ledger.put_down([delivery]);
        assert!(ledger.take(delivery, 1), "it was not sent");
        ledger.settle([delivery], false);
        tokio::time::advance(REMEMBERED).await;
        ledger.forget();
        assert!(!ledger.take(delivery, 1), "still remembered");
        tokio::time::advance(Duration::from_millis(1)).await;
        ledger.forget();
        assert!(ledger.take(delivery, 0), "forgotten");
    }
}
