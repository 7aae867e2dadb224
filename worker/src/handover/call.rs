//! One call of the system of a warehouse: the signed request, and the meaning of its answer
//! (`docs/reference/warehouse-systems.md#calls`).

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use longshore_domain::calling::signature::Signer;
use longshore_domain::expedition::handover::call::{Ask, Due};
use longshore_domain::expedition::handover::lane::Lease;
use longshore_domain::expedition::handover::outcome::{Answer, Outcome};
use longshore_domain::expedition::handover::{refusal, schedule};
use longshore_kernel::crypto::random_offset;
use serde_json::Value;
use url::Url;

use super::HandoverContext;
use crate::outbound::{Call, CallError, Client, Reply, retry_after};

/// The time limit of a whole exchange.
pub(super) const DEADLINE: Duration = Duration::from_secs(15);

/// Bytes of an answer that are read.
pub(super) const ANSWER_READ: usize = 64 * 1024;

/// Characters of an answer that are kept with a failure.
const EXCERPT: usize = 200;

/// Characters of the id of the warehouse.
const INTERNAL_ID: usize = 255;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The system that a turn calls.
#[derive(Debug)]
pub(super) struct Target {
    lease: Arc<Lease>,
    client: Client,
    deadline: Duration,
}

/// A call that is signed, and not made yet.
#[derive(Debug)]
pub(super) struct Begun {
    due: Due,
    probe: bool,
    /// Absent if the system cannot be called.
    call: Option<Call>,
}

impl Target {
    pub(super) fn new(lease: Arc<Lease>, context: &HandoverContext) -> Self {
        Self { lease, client: context.client.clone(), deadline: context.deadline }
    }

    /// Begins a call, with the secrets that the lease has read.
    pub(super) fn begin(&self, due: Due, probe: bool) -> Begun {
        let call = self.call(&due);
        Begun { due, probe, call }
    }

    /// Makes a call once.
    pub(super) async fn make(&self, begun: Begun) -> Outcome {
        let Begun { due, probe, call } = begun;
        let answer = match call {
            Some(call) => self.client.call(call).await,
            None => Err(CallError::Connect("the base URL is not a valid URL".to_owned())),
        };
        let answer = self.meaning(&due, &answer);
        if let Answer::Failed { error, .. } = &answer {
            tracing::debug!(
                expedition.id = %due.expedition, wms.id = %self.lease.wms, handover.number = due.number,
                handover.attempt = due.attempt, error, "a call of a warehouse failed"
            );
        }
        Outcome { probe, ..self.outcome(&due, answer) }
    }

    /// The outcome of a call that was not made.
    pub(super) fn not_called(&self, due: &Due) -> Outcome {
        self.outcome(due, Answer::NotCalled)
    }

    fn outcome(&self, due: &Due, answer: Answer) -> Outcome {
        Outcome {
            expedition: due.expedition,
            number: due.number,
            ask: due.ask,
            in_call_until: due.in_call_until,
            wms: self.lease.wms,
            token: self.lease.token,
            probe: false,
            answer,
        }
    }

    fn url(&self, due: &Due) -> Option<Url> {
        let mut url = address(&self.lease.base_url, &due.expedition.to_string())?;
        if due.ask == Ask::GiveBack {
            url.query_pairs_mut().append_pair("number", &due.number.to_string());
        }
        Some(url)
    }

    fn call(&self, due: &Due) -> Option<Call> {
        let key = due.key();
        // the clock of Postgres: systems compare this with their own, and this machine's clock may be wrong
        let timestamp = self.lease.time.now().timestamp();
        let body = due.body.clone();
        let Lease { signer, authentication, .. } = &*self.lease;
        let mut headers = signed(signer, authentication.as_ref(), &key, timestamp, &body)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let method = match due.ask {
            Ask::Take => {
                headers.insert(IDEMPOTENCY_KEY, HeaderValue::try_from(&key).ok()?);
                Method::PUT
            }
            Ask::GiveBack => Method::DELETE,
        };
        let (url, deadline) = (self.url(due)?, self.deadline);
        Some(Call { method, url, headers, body, deadline, answer_bytes: ANSWER_READ })
    }

    fn meaning(&self, due: &Due, answer: &Result<Reply, CallError>) -> Answer {
        let reply = match answer {
            Ok(reply) => reply,
            Err(CallError::Local(why)) => {
                tracing::warn!(error = why, "this machine has no resources for another call of a warehouse");
                return Answer::NotCalled;
            }
            Err(error) => return failed(due, &error.to_string(), false, None, None),
        };
        if let Some(fault) = &reply.fault {
            tracing::debug!(
                expedition.id = %due.expedition, wms.id = %self.lease.wms, status = reply.status.as_u16(), error = %fault,
                "an answer of a warehouse could not be read to its end"
            );
        }
        match (due.ask, reply.status.as_u16()) {
            (Ask::Take, 200 | 201 | 202 | 204) => Answer::Taken(internal_id(&json_of(reply))),
            // it has this number
            (Ask::Take, 409) => Answer::Taken(None),
            // its reasons are to be shown, and did not come: the call is made again, which is safe
            (Ask::Take, 422) if let Some(fault) = &reply.fault => {
                failed(due, &format!("answered 422, but {fault}"), false, None, None)
            }
            (Ask::Take, 422) => Answer::Refused(refusal::errors(&json_of(reply), &excerpt(&reply.body))),
            (Ask::Take, 410) => Answer::Refused(refusal::out_of_date()),
            (Ask::GiveBack, 200 | 204 | 404 | 410) => Answer::GivenBack,
            (Ask::GiveBack, 409) => Answer::Kept,
            (_, status) => {
                let asked = retry_after(&reply.headers, self.lease.time.now());
                // only these speak of the system rather than of this call
                let hold = asked.filter(|wait| matches!(status, 429 | 503) && !wait.is_zero());
                let is_ours = (300..500).contains(&status) && !matches!(status, 408 | 425 | 429);
                let error = match status {
                    300..400 => "redirects are not followed".to_owned(),
                    _ => match excerpt(&reply.body) {
                        said if said.is_empty() => format!("answered {status}"),
                        said => format!("answered {status}: {said}"),
                    },
                };
                failed(due, &error, is_ours, asked, hold)
            }
        }
    }
}

/// Where the system has an order.
pub(super) fn address(base_url: &str, expedition: &str) -> Option<Url> {
    let mut url = Url::parse(base_url).ok()?;
    url.path_segments_mut().ok()?.pop_if_empty().extend(["expedition", expedition]);
    Some(url)
}

/// The headers that every call has: its signature, and what authenticates it.
pub(super) fn signed(
    signer: &Signer,
    authentication: Option<&(HeaderName, HeaderValue)>,
    key: &str,
    timestamp: i64,
    body: &[u8],
) -> Option<HeaderMap> {
    let signature = signer.sign(key, timestamp, body);
    let mut headers: HeaderMap = authentication.into_iter().cloned().collect();
    headers.insert(WEBHOOK_ID, HeaderValue::try_from(key).ok()?);
    headers.insert(WEBHOOK_TIMESTAMP, HeaderValue::from(timestamp));
    headers.insert(WEBHOOK_SIGNATURE, HeaderValue::try_from(signature).ok()?);
    Some(headers)
}

fn failed(due: &Due, error: &str, is_ours: bool, asked: Option<Duration>, hold: Option<Duration>) -> Answer {
    let wait = schedule::wait(due.attempt, asked, is_ours, random_offset());
    Answer::Failed { error: error.replace('\0', "\u{fffd}"), wait, hold: hold.map(schedule::hold) }
}

/// The beginning of an answer, on one line.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * EXCERPT)]);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").chars().take(EXCERPT).collect()
}

/// The JSON of an answer; null where it is none.
fn json_of(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_default()
}

fn internal_id(body: &Value) -> Option<String> {
    let id = match &body["wmsInternalId"] {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => return None,
    };
    let is_kept = !id.is_empty() && !id.contains('\0') && id.chars().count() <= INTERNAL_ID;
    is_kept.then_some(id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_of_the_warehouse_is_a_short_text_or_a_number() {
        assert_eq!(internal_id(&json!({"wmsInternalId": "W-1"})).as_deref(), Some("W-1"));
        assert_eq!(internal_id(&json!({"wmsInternalId": 17})).as_deref(), Some("17"));
        for odd in [json!({"id": 1}), json!(""), json!("a\0b"), json!("x".repeat(256)), Value::Null] {
            assert_eq!(internal_id(&json!({"wmsInternalId": odd})), None);
        }
    }
}
