//! One call: whether it may be made, and the meaning of its answer.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use http::header::{CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderValue, Method};
use longshore_domain::partner::baselinker::answer::Unanswered;
use longshore_domain::partner::baselinker::window::{Slot, Taken as TakenSlot};
use longshore_domain::partner::baselinker::{TOKEN_HEADER, release};
use longshore_domain::partner::block;
use serde_json::Value;
use url::form_urlencoded;

use super::{Baselinker, NAME};
use crate::outbound::{Call, Reply, date};
use crate::partner::PartnerError;

/// Slots that catalogues leave to stocks: sold quantities must not wait until a catalogue has been read.
const SPARE: u32 = 3;

/// The longest wait for a slot within the call.
const SHORT_WAIT: Duration = Duration::from_secs(3);

/// When to try again if Postgres cannot answer whether the token is blocked.
const UNKNOWN: Duration = Duration::from_secs(1);

/// Bytes of an answer that are read at most. A longer list is requested in halves.
pub(super) const ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// The priority of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Urgency {
    /// A catalogue, which may wait.
    Catalogue,
    /// Stocks.
    Stocks,
}

/// Why a call failed.
#[derive(Debug)]
pub(super) enum Refused {
    /// Its answer is too long.
    TooLong,
    /// Any other error.
    By(PartnerError),
}

impl From<PartnerError> for Refused {
    fn from(error: PartnerError) -> Self {
        Self::By(error)
    }
}

impl Refused {
    /// The error, or the result of `too_long`.
    pub(super) fn or(self, too_long: impl FnOnce() -> PartnerError) -> PartnerError {
        match self {
            Self::TooLong => too_long(),
            Self::By(error) => error,
        }
    }
}

impl Baselinker {
    /// Calls a method and reads its answer.
    pub(super) async fn ask<T>(
        &self,
        urgency: Urgency,
        method: &str,
        parameters: &Value,
        read: impl FnOnce(&[u8]) -> Result<T, Unanswered>,
    ) -> Result<T, Refused> {
        let db = &self.services.db.main;
        // whether the token is blocked is unknown: nothing is sent, and no attempt is used
        let blocked = block::find(db, self.hash).await.map_err(|_| PartnerError::Busy(UNKNOWN))?;
        if let Some(block) = blocked {
            return Err(block_of(&block.message, block.until).into());
        }
        let slot = self.slot(urgency).await?;
        let reply = self.send(&slot, method, parameters).await;
        slot.end().await;
        let reply = reply?;
        match read(&reply.body) {
            Ok(read) => Ok(read),
            Err(_) if reply.body.len() >= ANSWER_BYTES => Err(Refused::TooLong),
            Err(Unanswered::Blocked(message)) => {
                // the end of a block is given by the partner's clock, if it sends it
                let now = self.services.clock.now();
                let wait = release::wait(&message, date(&reply.headers, &DATE, now).unwrap_or(now));
                let until = block::record(db, self.hash, wait, &message)
                    .await
                    .map_err(|_| PartnerError::Busy(wait))?;
                tracing::warn!(partner.token = ?self.hash, block.seconds = wait.as_secs(), "BaseLinker blocks a token");
                Err(block_of(&message, until).into())
            }
            Err(unanswered @ (Unanswered::Unauthorized { .. } | Unanswered::Refused { .. })) => {
                Err(PartnerError::Permanent(unanswered.to_string()).into())
            }
            Err(unanswered @ (Unanswered::Unreadable(_) | Unanswered::Failed { .. })) => {
                Err(PartnerError::transient(unanswered.to_string()).into())
            }
        }
    }

    /// Returns a slot, or how long none will be free.
    async fn slot(&self, urgency: Urgency) -> Result<Slot, PartnerError> {
        let spare = match urgency {
            Urgency::Catalogue => SPARE,
            Urgency::Stocks => 0,
        };
        let patient_until = Instant::now() + SHORT_WAIT;
        loop {
            match self.window.take(self.hash, spare).await {
                TakenSlot::Slot(slot) => return Ok(slot),
                TakenSlot::Wait(wait) if Instant::now() + wait > patient_until => {
                    return Err(PartnerError::Busy(wait));
                }
                TakenSlot::Wait(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    async fn send(&self, slot: &Slot, method: &str, parameters: &Value) -> Result<Reply, PartnerError> {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("method", method)
            .append_pair("parameters", &parameters.to_string())
            .finish();
        let mut headers = HeaderMap::new();
        headers.insert(TOKEN_HEADER, self.token.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let call = Call {
            method: Method::POST,
            url: self.endpoint.clone(),
            headers,
            body: form.into(),
            deadline: slot.until.saturating_duration_since(Instant::now()),
            answer_bytes: ANSWER_BYTES,
        };
        let reply = self.client.call(call).await.map_err(|error| PartnerError::of_call(NAME, &error))?;
        if !reply.status.is_success() {
            return Err(PartnerError::of_status(
                NAME,
                reply.status,
                &reply.headers,
                self.services.clock.now(),
            ));
        }
        match &reply.fault {
            Some(fault) => Err(PartnerError::of_call(NAME, fault)),
            None => Ok(reply),
        }
    }
}

/// The error of a blocked token.
fn block_of(message: &str, until: DateTime<Utc>) -> PartnerError {
    let reason = format!(
        "{NAME} has blocked the token of this e-shop until {} ({message}); the sync continues automatically after that",
        until.format("%Y-%m-%d %H:%M:%S UTC")
    );
    PartnerError::Blocked { reason, until }
}
