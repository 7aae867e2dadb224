//! Hints of lanes: that one has something due and, with a [`Notice`], what it is.
//!
//! A lane that ran dry may stay leased for some seconds (`worker::lanes`). Its holder is registered in Redis
//! and has a stream of its own. A hint of such a lane goes there with the contents of the delivery, and the holder
//! sends at once what it would else have to fetch. A hint of any other lane is an id on the queue.
//!
//! A notice is a hint with contents and no more: the delivery is a row that is due. Where a notice is lost, late, or
//! comes twice, the holder finds the row within a second, or knows it already.
//!
//! A notice holds what the destination receives, never a secret or a credential, and it is sealed: who reads Redis does not
//! learn it, and who writes there cannot have anything else sent.

use std::sync::LazyLock;
use std::time::Duration;

use chrono::{DateTime, Utc};
use redis::Script;
use serde::Deserialize;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgHasArrayType, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Postgres, Type};
use uuid::Uuid;

use crate::crypto::{Vault, VaultError};
use crate::ids::{DeliveryId, EventId, WebhookId};

/// The longest notice, in bytes; a hint of more is without contents.
pub const NOTICE_BYTES: usize = 16 * 1024;

/// Notices that may wait in one place: in a process before they are put, and in the stream of a holder. Beyond
/// that, a hint is without contents.
pub const NOTICES_WAITING: usize = 1_000;

/// Hints that one call of the script puts: at most a megabyte of contents.
pub(super) const HINTS: usize = 64;

/// How long the stream of a holder outlives its last entry.
pub(super) const STREAM_LIVES: Duration = Duration::from_secs(10);

/// A lane has something due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    lane: WebhookId,
    notice: Option<String>,
}

impl Hint {
    /// A hint with the contents of a delivery, as [`Notice`] reads them; without them if they are too long.
    #[must_use]
    pub fn new(lane: WebhookId, notice: Option<String>) -> Self {
        Self { lane, notice: notice.filter(|notice| notice.len() <= NOTICE_BYTES) }
    }

    /// The lane.
    #[must_use]
    pub fn lane(&self) -> WebhookId {
        self.lane
    }

    /// What is due, as it is stored.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// As it is put: sealed, or without contents where it cannot be.
    pub(super) fn seal(self, vault: &Vault) -> Sealed {
        let notice = self.notice.and_then(|text| Notice::seal(vault, self.lane, &text).ok());
        Sealed { lane: self.lane, notice }
    }

    /// Leaves out what is due.
    #[must_use]
    pub fn bare(self) -> Self {
        Self { notice: None, ..self }
    }
}

/// A hint as it is put.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) lane: WebhookId,
    pub(super) notice: Option<Vec<u8>>,
}

impl From<WebhookId> for Hint {
    fn from(lane: WebhookId) -> Self {
        Self { lane, notice: None }
    }
}

/// As a statement returns it: `(lane, notice)`.
type Row = (WebhookId, Option<String>);

impl Type<Postgres> for Hint {
    fn type_info() -> PgTypeInfo {
        <Row as Type<Postgres>>::type_info()
    }
}

impl PgHasArrayType for Hint {
    fn array_type_info() -> PgTypeInfo {
        <Row as PgHasArrayType>::array_type_info()
    }
}

impl<'r> Decode<'r, Postgres> for Hint {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        let (lane, notice) = Row::decode(value)?;
        Ok(Self::new(lane, notice))
    }
}

/// A delivery that has just become due, as the statement of its change has written it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The delivery.
    pub delivery: DeliveryId,
    /// The version of the webhook that the statement has seen.
    pub webhook_version: DateTime<Utc>,
    /// The event.
    pub event: EventId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The record that changed.
    pub entity: Uuid,
    /// When it changed, by the clock of Postgres.
    pub at: DateTime<Utc>,
    /// JSON of the event, as it is stored.
    pub data: String,
    /// The e-shops that it concerns, for a webhook of the organisation.
    pub eshops: Option<Vec<Uuid>>,
    /// The request that caused it.
    pub request_id: Option<String>,
    /// The trace context to continue.
    pub traceparent: Option<String>,
}

impl Notice {
    /// Seals one of a lane for an entry.
    pub fn seal(vault: &Vault, lane: WebhookId, text: &str) -> Result<Vec<u8>, VaultError> {
        vault.seal_in_transit(&place(lane), text.as_bytes())
    }

    /// Opens one of an entry of a lane; nothing if it is not what a process of the service has sealed for this lane.
    #[must_use]
    pub fn open(vault: &Vault, lane: WebhookId, sealed: &[u8]) -> Option<Self> {
        let text = vault.open_in_transit(&place(lane), sealed).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

fn place(lane: WebhookId) -> String {
    format!("notice:{lane}")
}

/// Puts hints. Those of a lane with a registered holder go to the stream of that, with the token of its lease, while
/// fewer than [`NOTICES_WAITING`] wait there. All others go to the queue as ids, each with its marker.
///
/// KEYS: the stream of the queue, then for each hint the registration of the holder and the marker. ARGV: the life of
/// markers in milliseconds, the bound, the life of a holder's stream in milliseconds, what the names of such streams
/// start with, then for each hint the id and the notice (empty if there is none).
pub(super) static PUT_HINTS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local added = 0
for i = 1, (#KEYS - 1) / 2 do
  local registered, marker = redis.call('GET', KEYS[2 * i]), KEYS[2 * i + 1]
  local id, notice = ARGV[2 * i + 3], ARGV[2 * i + 4]
  local token, name
  if registered then token, name = registered:match('^(%d+) (.+)$') end
  local stream = name and ARGV[4] .. name
  if stream and redis.call('XLEN', stream) < tonumber(ARGV[2]) then
    redis.call('XADD', stream, '*', 'd', id, 't', token, 'c', notice)
    redis.call('PEXPIRE', stream, ARGV[3])
    added = added + 1
  else
    local entry = redis.call('GET', marker)
    local found = entry and redis.call('XRANGE', KEYS[1], entry, entry)[1]
    if not found or found[2][2] ~= id then
      entry = redis.call('XADD', KEYS[1], '*', 'd', id)
      redis.call('SET', marker, entry, 'PX', ARGV[1])
      added = added + 1
    end
  end
end
return added",
    )
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_of_more_than_the_bound_has_no_contents() {
        let of = |bytes| Hint::new(WebhookId::from_u128(1), Some("x".repeat(bytes)));
        assert_eq!(of(NOTICE_BYTES).notice().map(str::len), Some(NOTICE_BYTES));
        assert_eq!(of(NOTICE_BYTES + 1), Hint::from(WebhookId::from_u128(1)));
    }
}
