//! The results of attempts.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::calling::breaker::Sign;
use crate::list::fields::delivery::DeliveryState;
use longshore_kernel::ids::{BatchId, DeliveryId, OrganisationId, WebhookId};

/// One call of a destination.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Which of the delivery, from 1.
    pub number: usize,
    /// When it began.
    #[serde(serialize_with = "crate::record::moment")]
    pub at: DateTime<Utc>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Status of the answer, where one came.
    pub status: Option<u16>,
    /// Why there was none, why it does not count, or what could not be read of one that counts.
    pub error: Option<String>,
    /// The beginning of the answer's body; without U+0000, which Postgres does not hold.
    pub response: Option<String>,
    /// Headers of an answer that is a failure, as far as they are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
}

impl Attempt {
    /// The same without what was answered.
    #[must_use]
    pub fn without_answer(&self) -> Self {
        Self { response: None, headers: None, error: self.error.clone(), ..*self }
    }
}

/// What becomes of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The destination took it.
    Delivered,
    /// It is tried again after this wait.
    Failed {
        /// From now on, by the clock of Postgres.
        wait: Duration,
    },
    /// Its batch is divided: it is due at once, in one half or the other, and no attempt is used up.
    Divided,
    /// That was the last attempt.
    Exhausted,
    /// It will not be sent: its event has expired.
    Cancelled,
}

impl End {
    /// Its word, as it is stored and counted.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => DeliveryState::Delivered.as_str(),
            Self::Failed { .. } => "failed",
            Self::Divided => "divided",
            Self::Exhausted => DeliveryState::Exhausted.as_str(),
            Self::Cancelled => DeliveryState::Cancelled.as_str(),
        }
    }
}

/// The batch that a delivery was sent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batched {
    /// The one that was sent.
    pub sent: BatchId,
    /// The one in which it is tried again, or else the same.
    pub next: BatchId,
    /// Its outcome speaks for the call, which is one sign to the breaker.
    pub speaks: bool,
}

/// What became of a delivery in a turn.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Its webhook.
    pub webhook: WebhookId,
    /// The lease under which it was sent.
    pub token: i64,
    /// It was a probe: the breaker was open when it was sent.
    pub probe: bool,
    /// Whose the webhook is.
    pub organisation: OrganisationId,
    /// Type of the event.
    pub event_type: String,
    /// Entity of the event.
    pub entity: Uuid,
    /// What becomes of it.
    pub end: End,
    /// The call, where there was one.
    pub attempt: Option<Attempt>,
    /// For how long the destination asks to be left alone, from now on.
    pub hold: Option<Duration>,
    /// The batch that it was sent in.
    pub batch: Option<Batched>,
}

impl Outcome {
    /// The destination is gone for good (410): its webhook is to be disabled.
    pub(super) fn is_gone(&self) -> bool {
        self.attempt.as_ref().is_some_and(|a| a.status == Some(410))
    }

    /// What it says about the destination.
    #[must_use]
    pub fn sign(&self) -> Option<Sign> {
        match self.end {
            _ if self.batch.is_some_and(|batch| !batch.speaks) => None,
            End::Delivered => Some(Sign::Success),
            End::Failed { .. } | End::Divided | End::Exhausted => Some(Sign::Failure { probe: self.probe }),
            End::Cancelled => None,
        }
    }
}

/// How the outcomes of one lease were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "what the statement says of a lease, each by itself")]
pub struct Reported {
    /// The webhook.
    pub webhook: WebhookId,
    /// The lease.
    pub token: i64,
    /// It was no longer the lane's: nothing was changed.
    pub stale: bool,
    /// The webhook was well, and now fails.
    pub began_failing: bool,
    /// All its attempts failed for five days.
    pub overdue: bool,
    /// The webhook was disabled.
    pub disabled: bool,
}
