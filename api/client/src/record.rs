//! Records of the service that the programs around it work with. Further fields of an answer are ignored; read a call as a
//! [`Value`] to see all of them.

mod job;
mod word;

use std::fmt;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

pub use self::job::{Connection, ItemError, Job, JobResult, Preview, Progress};
pub use self::word::{DeliveryState, Health, JobState, Outcome};

/// The statuses of orders that this version knows.
pub const ORDER_STATUSES: &[&str] = &[
    "on_hold",
    "incorrect",
    "awaiting_reservation",
    "waiting_for_goods",
    "stock_ok",
    "awaiting_processing",
    "take_out",
    "completion",
    "waiting_for_the_carrier",
    "carrier_picked_up",
    "ready_to_takeover",
    "probably_delivered",
    "delivered",
    "waiting_for_cancel",
    "canceled",
];

/// The states of hand-overs that this version knows.
pub const HAND_OVER_STATES: &[&str] =
    &["pending", "sending", "accepted", "withdrawing", "refused", "withdrawn"];

/// What a replay would send.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReplayCount {
    /// Webhooks that match.
    pub webhooks: u64,
    /// Deliveries that wait for their next attempt, or for their destination.
    pub waiting: u64,
    /// Events whose deliveries ended without success.
    pub failed: u64,
    /// Events whose deliveries succeeded, where these are wanted.
    pub delivered: u64,
    /// The sum of the three.
    pub total: u64,
    /// Whether there may be more than were counted.
    pub at_least: bool,
    /// Seconds that it takes to send them at the recent pace of the destinations.
    pub seconds: Option<f64>,
}

/// A webhook: where an e-shop receives events.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Webhook {
    /// Its id.
    pub id: Uuid,
    /// Whether it sends; an inactive one keeps its deliveries.
    pub active: bool,
    /// Whether its deliveries succeed.
    pub health: Health,
    /// Until when nothing is sent, because its destination asked for a pause.
    pub held_until: Option<DateTime<Utc>>,
    /// Whether it makes one call at a time, and a failure holds the next ones.
    pub ordered: bool,
}

impl Webhook {
    /// The types of events that this version knows.
    pub const EVENTS: &[&str] = &[
        "organization_change",
        "product_change",
        "product_stock_change",
        "stock_advice_status_change",
        "expedition_status_change",
        "expedition_booked_change",
        "expedition_change",
        "expedition_deleted",
        "sync_finished",
        "job_finished",
        "restored",
        "test",
    ];
}

/// What a webhook would have been told of.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WebhookTried {
    /// The newest events that were looked at.
    pub looked: u64,
    /// How many of them match.
    pub matched: u64,
    /// Bodies of the newest that match.
    pub examples: Vec<Value>,
}

/// Events in their order.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EventPage {
    /// Their bodies, each with its `webhookId`.
    pub events: Vec<Value>,
    /// Where to read on.
    pub next: String,
    /// How long ago what was read last was committed, in milliseconds; 0 at the end.
    pub behind_ms: u64,
}

/// A webhook as its creation shows it.
#[derive(Clone, Deserialize)]
#[non_exhaustive]
pub struct CreatedWebhook {
    /// Its id.
    pub id: Uuid,
    /// The secret with which its requests are signed. It is shown only once: an answer that is repeated for an
    /// idempotency key omits it.
    pub secret: Option<String>,
}

impl fmt::Debug for CreatedWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedWebhook").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A delivery as its creation shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct CreatedDelivery {
    /// Its id, with which [`Client::delivery`](crate::Client::delivery) reads it.
    pub id: Uuid,
}

/// An event on its way to a webhook.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Delivery {
    /// Its id.
    pub id: Uuid,
    /// The `webhook-id` header, the same on every retry and redelivery.
    pub webhook_id: Uuid,
    /// The type of its event.
    pub event: String,
    /// Its state.
    pub state: DeliveryState,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// The number of attempts.
    pub attempt_count: u64,
    /// The attempts, the first one first; a list of deliveries omits them.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
}

/// An attempt of a delivery.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Attempt {
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The HTTP status of the destination; `None` without an answer.
    pub status: Option<u16>,
    /// Why it failed.
    pub error: Option<String>,
}

/// A queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Queue {
    /// Its name: `chunk`, `partner`, `lane`, `handover` or `upkeep`.
    pub name: String,
    /// Whether an operator has paused it.
    pub paused: bool,
    /// When the pause ends by itself.
    pub resumes_at: Option<DateTime<Utc>>,
}

impl Queue {
    /// The names of the queues that this version knows.
    pub const NAMES: &[&str] = &["chunk", "partner", "lane", "handover", "upkeep"];
}

/// What a search for anything found.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Hits {
    /// The hits, kind by kind; at most 20 of a kind.
    pub results: Vec<Hit>,
    /// The kinds that have more hits.
    pub more: Vec<String>,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Hit {
    /// What it is: one of [`Hit::KINDS`].
    pub kind: String,
    /// Its id; that of the newest audit record of a `request`.
    pub id: Uuid,
    /// What people call it.
    pub name: String,
    /// Where it belongs, such as the name of its e-shop.
    pub of: Option<String>,
}

impl Hit {
    /// The kinds that this version knows.
    pub const KINDS: &[&str] = &[
        "eshop",
        "organisation",
        "product",
        "order",
        "webhook",
        "job",
        "delivery",
        "wms",
        "preference",
        "token",
        "account",
        "request",
        "entity",
    ];
}

/// An acknowledgement or a mute of a line.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Silence {
    /// `acknowledged` or `muted`.
    pub mode: String,
    /// What the line said then.
    pub sentence: String,
    /// When it ends.
    pub until: DateTime<Utc>,
}

impl Silence {
    /// How long a mute may last.
    pub const SPANS: &[&str] = &["1h", "8h", "24h", "7d"];
}

/// An order that a warehouse reports of since Postgres was set back, and that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LostOrder {
    /// The id of its record, by which it is dismissed.
    pub id: Uuid,
    /// The wms.
    pub wms: Uuid,
    /// The id that the order had.
    pub expedition: Uuid,
    /// The highest number of a hand-over that was reported.
    pub number: Option<i32>,
    /// The last report.
    pub report: Value,
    /// When the first report came.
    pub created_at: DateTime<Utc>,
    /// When the last one came.
    pub changed_at: DateTime<Utc>,
}

/// A login: a token with the rights of an account.
#[derive(Clone, Deserialize)]
#[non_exhaustive]
pub struct Login {
    /// The token.
    pub token: String,
    /// When it ends, in Unix seconds.
    pub exp: i64,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("exp", &self.exp).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_later_version_is_kept() {
        let states: Vec<JobState> = serde_json::from_str(r#"["running","succeeded","sleeping"]"#).unwrap();
        assert_eq!(states, [JobState::Running, JobState::Succeeded, JobState::Other("sleeping".to_owned())]);
        assert_eq!(serde_json::to_string(&states).unwrap(), r#"["running","succeeded","sleeping"]"#);
        assert_eq!(states.iter().map(JobState::is_end).collect::<Vec<_>>(), [false, true, false]);
    }
}
