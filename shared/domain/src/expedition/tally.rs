//! Transitions in numbers, for the metrics.

use super::write::Transition;
use longshore_kernel::metrics::OrderCounts;

/// Action of the audit records of an allocation.
pub(super) const ALLOCATION: &str = "expedition.reserve";

/// The orders that transitions book, and those whose bookings the allocator takes back.
pub(super) fn of(transitions: &[Transition<'_>]) -> OrderCounts {
    let mut counts = OrderCounts::default();
    for Transition { order, state, action, .. } in transitions {
        let (was, is) = (order.state.status.is_booked(), state.status.is_booked());
        counts.booked += usize::from(is && !was);
        counts.taken_back += usize::from(was && !is && *action == ALLOCATION);
    }
    counts
}
