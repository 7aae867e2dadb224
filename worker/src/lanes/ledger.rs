//! The deliveries that a turn has in hand.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use longshore_shared::kernel::ids::DeliveryId;

/// The deliveries of a turn, each from its fetch until its outcome is known to be committed.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    in_hand: Mutex<HashSet<DeliveryId>>,
    closed: AtomicBool,
    settled: Notify,
}

impl Ledger {
    /// Adds a delivery.
    pub(super) fn take(&self, delivery: DeliveryId) {
        self.lock().insert(delivery);
    }

    /// Removes deliveries that were not sent.
    pub(super) fn put_down(&self, deliveries: impl IntoIterator<Item = DeliveryId>) {
        let mut in_hand = self.lock();
        for delivery in deliveries {
            in_hand.remove(&delivery);
        }
    }

    /// Removes deliveries whose outcomes are recorded. `closed` ends the turn, for example
    /// because its lease is lost or its webhook was disabled.
    pub(super) fn settle(&self, deliveries: impl IntoIterator<Item = DeliveryId>, closed: bool) {
        if closed {
            self.closed.store(true, Ordering::Release);
        }
        self.put_down(deliveries);
        self.settled.notify_one();
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
        self.lock().is_empty()
    }

    /// The deliveries in hand.
    pub(super) fn in_hand(&self) -> Vec<DeliveryId> {
        self.lock().iter().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<DeliveryId>> {
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
