//! Deliveries that are due, as they are read and sent.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::webhook::event::{self, Event};
use longshore_kernel::ids::{BatchId, DeliveryId, EventId, WebhookId};

// The queries name these limits as numbers: of a parameter the planner expects a tenth of all that is due, and would
// sort the whole backlog for every fetch.

/// Deliveries of one fetch.
pub const AT_ONCE: usize = 200;

/// Deliveries that come with a lease: by default, as many as a lane sends at once.
pub const FEW: usize = 16;

/// A delivery that is due.
#[derive(Debug)]
pub struct Due {
    /// The delivery.
    pub id: DeliveryId,
    /// Its event; absent when that has expired, since the webhook was inactive for so long.
    pub event: Option<Event>,
    /// Failed attempts so far.
    pub attempts: usize,
}

/// Deliveries that are sent by one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its id, which is the `webhook-id` of the call, the same whenever it is tried again.
    pub id: BatchId,
    /// The status of the last answer to them, if there was one.
    pub last_status: Option<u16>,
}

/// Where a fetch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub(super) next_attempt_at: DateTime<Utc>,
    pub(super) id: DeliveryId,
}

/// What a fetch starts from, and leaves out.
#[derive(Clone, Debug, Default)]
pub struct From {
    /// Where the last one ended; absent: the beginning.
    pub after: Option<Cursor>,
    /// Deliveries whose outcome was not known to be committed when this was gathered. They may also be before the cursor: a
    /// delivery of an older transaction that becomes visible late sets it back.
    pub in_hand: Vec<DeliveryId>,
    /// The batches of these.
    pub batches: Vec<BatchId>,
    /// There may be a batch that a holder before has begun.
    pub begun: bool,
    /// It is for a probe by [what was tried before](crate::calling::breaker::Breaker::probes_again).
    pub again: bool,
    /// It is for one delivery only: a probe.
    pub single: bool,
}

/// What a fetch found.
#[derive(Debug, Default)]
pub struct Found {
    /// The deliveries, in the order in which they are sent.
    pub due: Vec<Due>,
    /// Where it ended; nothing where no more is due, or the lane is ordered.
    pub cursor: Option<Cursor>,
    /// As many were found as were asked for: there may be more.
    pub is_full: bool,
    /// They are sent by one call.
    pub batch: Option<Batch>,
    /// A holder before has begun that batch; there may be more of them.
    pub was_begun: bool,
}

impl Found {
    pub(super) fn of(webhook: WebhookId, rows: Vec<Row>, asked: usize) -> Self {
        let is_full = rows.len() == asked;
        let last = rows.last().filter(|_| is_full);
        let cursor = last.map(|r| Cursor { next_attempt_at: r.next_attempt_at, id: r.id });
        Self {
            due: rows.into_iter().map(|row| row.due(webhook)).collect(),
            cursor,
            is_full,
            batch: None,
            was_begun: false,
        }
    }
}

/// A delivery with its event, as it is read.
pub(super) struct Row {
    pub(super) id: DeliveryId,
    pub(super) event_id: EventId,
    pub(super) attempt_count: i16,
    pub(super) next_attempt_at: DateTime<Utc>,
    /// Of the last answer, where it is asked for.
    pub(super) last_status: Option<i32>,
    pub(super) event_type: Option<String>,
    pub(super) entity_id: Option<Uuid>,
    pub(super) at: Option<DateTime<Utc>>,
    pub(super) data: Option<String>,
    pub(super) eshops: Option<Vec<Uuid>>,
    pub(super) request_id: Option<String>,
    pub(super) traceparent: Option<String>,
}

impl Row {
    /// What of it is due at its webhook.
    fn due(self, webhook: WebhookId) -> Due {
        let event = match (self.event_type, self.entity_id, self.at, self.data) {
            (Some(kind), Some(entity), Some(at), Some(data)) => {
                let Self { event_id: id, eshops, request_id, traceparent, .. } = self;
                let is_test = event::is_test(webhook, entity);
                Some(Event { id, kind, entity, is_test, at, data, eshops, request_id, traceparent })
            }
            _ => None,
        };
        Due { id: self.id, event, attempts: usize::try_from(self.attempt_count).unwrap_or(0) }
    }
}
