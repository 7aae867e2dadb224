//! Records of the service, with the fields that clients use. Further fields of an answer are ignored; read a
//! call as a [`Value`](crate::Value) to see all of them.

mod job;
mod word;

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use self::job::{Connection, ItemError, Job, JobResult, Progress, WaitsFor};
pub use self::word::{DeliveryState, Health, JobState, Outcome};

/// An order, as far as most programs need it; [`Answer::read`](crate::Answer::read) gives all of it as another type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expedition {
    /// Identifier.
    pub id: Uuid,
    /// Its e-shop.
    pub eshop: Uuid,
    /// Its number in the e-shop.
    pub order_number: String,
    /// Its status, such as `waiting_for_goods`.
    pub status: String,
    /// Since when.
    pub status_since: DateTime<Utc>,
    /// The product that it waits for.
    pub waits_for: Option<Uuid>,
    /// Its version.
    pub version: u64,
}

impl Expedition {
    /// The statuses that this version knows.
    pub const STATUSES: &[&str] = &[
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
    pub const HAND_OVERS: &[&str] =
        &["pending", "sending", "accepted", "withdrawing", "refused", "withdrawn"];
}

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
    /// Its e-shop.
    pub eshop: Uuid,
    /// The type of its events; `*` for all.
    pub event: String,
    /// The URL that is called.
    pub destination: String,
    /// Whether it sends; an inactive one keeps its deliveries.
    pub active: bool,
    /// Whether its deliveries succeed.
    pub health: Health,
    /// Why the service disabled it.
    pub disabled_reason: Option<String>,
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
        "sync_finished",
        "test",
    ];
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
    /// Its webhook.
    pub webhook: Uuid,
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
    /// When the next attempt is due.
    pub next_attempt_at: Option<DateTime<Utc>>,
}

/// An attempt of a delivery.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u64,
    /// When it began.
    pub at: DateTime<Utc>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The HTTP status of the destination; `None` without an answer.
    pub status: Option<u16>,
    /// Why it failed.
    pub error: Option<String>,
    /// The first 2 KiB of the answer.
    pub response: Option<String>,
    /// Headers of an answer that is a failure; without cookies.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// An access token, without its value.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AccessToken {
    /// Its id.
    pub id: Uuid,
    /// What it is for.
    pub name: String,
    /// What it may do: `superadmin`, `admin`, `user`, `connector`, `viewer` or `warehouse`.
    pub role: String,
    /// The organisation that it is bound to.
    pub organisation: Option<Uuid>,
    /// The e-shop that it is bound to.
    pub eshop: Option<Uuid>,
    /// When it ends; `None`: never.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was revoked.
    #[serde(default)]
    pub revoked_at: Option<DateTime<Utc>>,
    /// Who revoked it.
    #[serde(default)]
    pub revoked_by: Option<Author>,
    /// When it was last used.
    pub last_used_at: Option<DateTime<Utc>>,
    /// Who created it.
    pub created_by: Author,
    /// When it was created.
    pub created_at: DateTime<Utc>,
}

/// Who made a change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Author {
    /// The kind of caller; `None` for the service itself and its command line.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Its id.
    pub id: Option<Uuid>,
    /// Its name.
    pub name: String,
}

/// An e-shop.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Eshop {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// Its organisation.
    pub organisation: Uuid,
    /// Whether it is active.
    pub active: bool,
}

/// The state of all queues.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct QueueOverview {
    /// The queues.
    pub queues: Vec<Queue>,
    /// `up`, or `down` if Redis cannot be reached or refuses writes.
    pub redis: String,
    /// Why Redis is down.
    pub redis_reason: Option<String>,
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

/// What needs attention now.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Attention {
    /// The lines, the worst first.
    pub lines: Vec<AttentionLine>,
    /// Mutes of lines that are not there now.
    pub absent: Vec<Silence>,
    /// What people switched off, by kind.
    #[serde(default)]
    pub switched_off: Vec<SwitchedOff>,
}

/// What of a kind is switched off.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SwitchedOff {
    /// `queue`, `integration`, `warehouse` or `webhook`.
    pub kind: String,
    /// How many there are.
    pub count: i64,
    /// Whether counting stopped there.
    pub at_least: bool,
    /// Those that were changed last, the last one first.
    pub things: Vec<SwitchedOffThing>,
}

/// A thing that is switched off.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SwitchedOffThing {
    /// What it is, for people.
    pub name: String,
    /// The page of the console that shows it.
    pub page: String,
    /// Its organisation; none for a queue.
    pub organisation: Option<Uuid>,
    /// Who switched it off, as far as the audit goes back.
    pub by: Option<String>,
    /// When.
    pub at: Option<DateTime<Utc>>,
}

/// Something that needs attention.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AttentionLine {
    /// Its id, the same for as long as it is about the same thing.
    pub id: Uuid,
    /// What it is about, as in `destination` or `queue`.
    pub kind: String,
    /// `critical` or `warning`.
    pub severity: String,
    /// The organisation, where it is about something of one.
    pub organisation: Option<Uuid>,
    /// What is wrong, for people.
    pub sentence: String,
    /// The page of the console that shows it.
    pub page: String,
    /// The moment that moves on when something new happens.
    pub cause: Option<DateTime<Utc>>,
    /// Its acknowledgement or mute.
    pub silence: Option<Silence>,
}

/// An acknowledgement or a mute of a line.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Silence {
    /// The line.
    pub line: Uuid,
    /// `acknowledged` or `muted`.
    pub mode: String,
    /// What the line said then.
    pub sentence: String,
    /// Who said it.
    pub by: String,
    /// When.
    pub at: DateTime<Utc>,
    /// When it ends.
    pub until: DateTime<Utc>,
    /// Why, or a note.
    pub reason: Option<String>,
}

impl Silence {
    /// How long a mute may last.
    pub const SPANS: &[&str] = &["1h", "8h", "24h", "7d"];
}

/// A record of one change.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditRecord {
    /// Its id.
    pub id: Uuid,
    /// When the change was made.
    pub at: DateTime<Utc>,
    /// Who made it.
    pub actor: Author,
    /// What was done, such as `product.update`.
    pub action: String,
    /// The request that made it.
    pub request_id: Option<String>,
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
