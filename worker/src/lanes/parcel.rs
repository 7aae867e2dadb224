//! What is being sent by one call, a delivery or a batch: the signed call and the meaning of its answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::header::{CONTENT_TYPE, LOCATION, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use longshore_domain::webhook::event::{self, Event};
use longshore_domain::webhook::lane::{Attempt, Batch, Batched, Due, End, Lease, Outcome};
use longshore_domain::webhook::schedule;
use longshore_kernel::crypto::random_offset;
use longshore_kernel::ids::{DeliveryId, EventId, OrganisationId};
use longshore_kernel::metrics::Metrics;
use longshore_kernel::trace;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};
use url::Url;
use uuid::Uuid;

use super::LaneContext;
use super::batch::{self, Room};
use crate::outbound::{Call, CallError, Client, Reply, retry_after};

/// The time limit of a whole exchange (`docs/reference/deliveries.md#attempts`).
pub(super) const DEADLINE: Duration = Duration::from_secs(15);

/// Bytes of an answer that are read, of one to a batch, and that are stored.
const ANSWER_READ: usize = 16 * 1024;
const ANSWER_READ_OF_BATCH: usize = 64 * 1024;
const ANSWER_KEPT: usize = 2 * 1024;

/// Headers of an answer that are stored, and characters of each.
const HEADERS_KEPT: usize = 24;
const HEADER_KEPT: usize = 256;

/// Headers of a call, including those that the client adds.
const HEADERS: usize = 12;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const TRACEPARENT: HeaderName = HeaderName::from_static(trace::TRACEPARENT);

/// What one call sends.
#[derive(Debug)]
pub(super) struct Parcel {
    /// One delivery, or those of a batch in their order.
    parts: Vec<Part>,
    batch: Option<Batch>,
    /// Absent when the event has expired.
    content: Option<Content>,
    /// The memory that it takes of what batches may take.
    pub(super) room: Option<Room>,
}

/// A delivery of a parcel.
#[derive(Debug)]
struct Part {
    delivery: DeliveryId,
    event: Option<EventId>,
    kind: String,
    entity: Uuid,
    /// Failed attempts so far.
    attempts: usize,
}

#[derive(Debug)]
struct Content {
    /// The `webhook-id`: that of the event, or of the batch.
    id: Uuid,
    body: Bytes,
    request_id: Option<String>,
    traceparent: Option<String>,
}

impl Part {
    fn of(due: &Due, organisation: OrganisationId) -> Self {
        let (kind, entity) = match &due.event {
            Some(event) => (event.kind.clone(), event.entity),
            None => ("expired".to_owned(), organisation.get()),
        };
        Self {
            delivery: due.id,
            event: due.event.as_ref().map(|event| event.id),
            kind,
            entity,
            attempts: due.attempts,
        }
    }
}

impl Parcel {
    /// A delivery by itself.
    pub(super) fn of(mut due: Due, lease: &Lease) -> Self {
        narrow(&mut due, lease);
        let parts = vec![Part::of(&due, lease.organisation)];
        let content = due.event.map(|event| Content {
            id: event.id.get(),
            body: event.body(),
            request_id: event.request_id,
            traceparent: event.traceparent,
        });
        Self { parts, batch: None, content, room: None }
    }

    /// A batch, and what of it cannot be sent, because its event has expired.
    pub(super) fn of_batch(batch: Batch, due: Vec<Due>, lease: &Lease) -> Vec<Self> {
        let (mut due, expired): (Vec<_>, Vec<_>) = due.into_iter().partition(|due| due.event.is_some());
        for due in &mut due {
            narrow(due, lease);
        }
        let mut parcels: Vec<Self> = expired.into_iter().map(|due| Self::of(due, lease)).collect();
        let parts: Vec<Part> = due.iter().map(|due| Part::of(due, lease.organisation)).collect();
        let events: Vec<Event> = due.into_iter().filter_map(|due| due.event).collect();
        if let Some(last) = events.last() {
            let content = Content {
                id: batch.id.get(),
                body: event::body_of_batch(&events),
                request_id: last.request_id.clone(),
                traceparent: last.traceparent.clone(),
            };
            parcels.push(Self { parts, batch: Some(batch), content: Some(content), room: None });
        }
        parcels
    }

    /// Its deliveries.
    pub(super) fn deliveries(&self) -> impl Iterator<Item = DeliveryId> {
        self.parts.iter().map(|part| part.delivery)
    }

    /// Bytes of its body.
    pub(super) fn bytes(&self) -> usize {
        self.content.as_ref().map_or(0, |content| content.body.len())
    }
}

/// Leaves out what the webhook is not told.
fn narrow(due: &mut Due, lease: &Lease) {
    if let Some(event) = &mut due.event {
        event.narrow(lease.of_organisation, lease.select.as_deref());
    }
}

/// A parcel whose call has begun: it is signed, but not sent yet.
#[derive(Debug)]
pub(super) struct Begun {
    parts: Vec<Part>,
    batch: Option<Batch>,
    /// Absent when the event has expired.
    signed: Option<Signed>,
    pub(super) room: Option<Room>,
}

#[derive(Debug)]
struct Signed {
    request_id: Option<String>,
    traceparent: Option<String>,
    at: DateTime<Utc>,
    /// Absent if the destination cannot be called.
    call: Option<Call>,
}

/// No call was made because this machine had no room for it.
#[derive(Debug)]
pub(super) struct NoRoom {
    pub(super) deliveries: Vec<DeliveryId>,
    /// The error of the operating system.
    pub(super) why: String,
}

/// The destination of the parcels of a turn.
#[derive(Debug)]
pub(super) struct Target {
    lease: Arc<Lease>,
    pub(super) url: Option<Url>,
    headers: HeaderMap,
    client: Client,
    metrics: Metrics,
    /// The time limit of a whole exchange.
    deadline: Duration,
}

impl Target {
    pub(super) fn new(lease: Arc<Lease>, context: &LaneContext) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some((name, value)) = lease.authentication.clone() {
            headers.insert(name, value);
        }
        Self {
            url: Url::parse(&lease.destination).ok(),
            headers,
            client: context.client.clone(),
            metrics: context.services.metrics.clone(),
            deadline: context.deadline,
            lease,
        }
    }

    /// Begins the call of a parcel, with the secrets that the lease has read.
    pub(super) fn begin(&self, parcel: Parcel) -> Begun {
        let Parcel { parts, batch, content, room } = parcel;
        let signed = content.map(|content| {
            // the clock of Postgres: receivers compare this with their own, and this machine's clock may be
            // wrong
            let at = self.lease.time.now();
            let call = self.call(&content, &parts, batch.is_some(), at.timestamp());
            Signed { request_id: content.request_id, traceparent: content.traceparent, at, call }
        });
        Begun { parts, batch, signed, room }
    }

    /// Sends a parcel once; `probe` if the breaker is open. What became of each of its deliveries.
    pub(super) async fn send(&self, begun: Begun, probe: bool) -> Result<Vec<Outcome>, NoRoom> {
        let Begun { parts, batch, signed, room: _ } = begun;
        let Some(Signed { request_id, traceparent, at, call }) = signed else {
            // it is none of its batch, which goes on without it
            return Ok(parts.into_iter().map(|part| self.outcome(part, End::Cancelled, None)).collect());
        };
        let first = &parts[0];
        // those of a batch have as many, but for what was tried alone before
        let number = parts.iter().map(|part| part.attempts).max().unwrap_or(0) + 1;
        let span = self.span(first, request_id.as_deref(), traceparent.as_deref(), number);
        let started = Instant::now();
        let answer = match call {
            Some(call) => self.client.call(call).instrument(span.clone()).await,
            None => Err(CallError::Connect("the destination is not a valid URL".to_owned())),
        };
        if let Err(CallError::Local(why)) = answer {
            if !span.is_none() {
                trace::fail(&span, why.clone());
            }
            return Err(NoRoom { deliveries: parts.iter().map(|part| part.delivery).collect(), why });
        }
        let took = started.elapsed();
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let verdict = Verdict::of(&answer);
        if !span.is_none() {
            if let Some(status) = verdict.status {
                trace::note(&span, "http.response.status_code", i64::from(status));
            }
            if let Some(error) = verdict.error.as_ref().filter(|_| !verdict.is_delivered) {
                trace::fail(&span, error.clone());
            }
        }
        let reply = answer.as_ref().ok();
        let asked = reply.and_then(|reply| retry_after(&reply.headers, self.lease.time.now()));
        let failed = || {
            schedule::wait(number, asked, random_offset()).map_or(End::Exhausted, |wait| End::Failed { wait })
        };
        let mut hold = None;
        if !verdict.is_delivered {
            // only these statuses speak of the destination rather than of this delivery
            hold = asked
                .filter(|wait| matches!(verdict.status, Some(429 | 503)) && !wait.is_zero())
                .map(schedule::hold);
            tracing::debug!(
                delivery.id = %first.delivery, webhook.id = %self.lease.webhook, delivery.attempt = number,
                delivery.duration_ms = duration_ms, status = verdict.status, error = verdict.error.as_deref(),
                request.id = request_id.as_deref(), batch.events = batch.map(|_| parts.len()), "an attempt failed"
            );
        }
        let attempt = Attempt {
            number,
            at,
            duration_ms,
            status: verdict.status,
            error: verdict.error,
            response: verdict.response,
            headers: verdict.headers,
        };
        let ends = match batch {
            None if verdict.is_delivered => vec![(End::Delivered, None)],
            None => vec![(failed(), None)],
            Some(batch) => {
                let body = reply.map(|reply| reply.body.as_slice()).unwrap_or_default();
                let answered = batch::Answered {
                    status: verdict.status,
                    is_delivered: verdict.is_delivered,
                    body,
                    is_whole: body.len() < ANSWER_READ_OF_BATCH
                        && reply.is_some_and(|reply| reply.fault.is_none()),
                };
                let events: Vec<_> = parts.iter().map(|part| part.event).collect();
                let ends = batch::ends(&batch, &events, &answered, failed(), self.lease.ordered);
                ends.into_iter().map(|(end, of)| (end, Some(of))).collect()
            }
        };
        // what was answered is kept once
        let others = (parts.len() > 1).then(|| attempt.without_answer());
        let attempts = std::iter::once(attempt).chain(others.into_iter().cycle());
        let sent = |((part, (end, of)), attempt): ((Part, _), _)| {
            let attempt = Attempt { number: part.attempts + 1, ..attempt };
            Outcome { attempt: Some(attempt), probe, hold, ..self.outcome(part, end, of) }
        };
        let outcomes: Vec<Outcome> = parts.into_iter().zip(ends).zip(attempts).map(sent).collect();
        for outcome in outcomes.iter().filter(|outcome| outcome.batch.is_none_or(|of| of.speaks)) {
            self.metrics.webhook_attempted(self.lease.webhook, outcome.end.as_str(), took);
        }
        Ok(outcomes)
    }

    /// The span of the call in the trace of its event; none if tracing is off.
    fn span(&self, part: &Part, request: Option<&str>, traceparent: Option<&str>, number: usize) -> Span {
        if !trace::is_on() {
            return Span::none();
        }
        let span = tracing::info_span!(
            "delivery", delivery.id = %part.delivery, delivery.attempt = number, webhook.id = %self.lease.webhook,
            event.type = part.kind, request.id = request, trace.id = Empty, otel.kind = "client"
        );
        trace::begin(&span, traceparent);
        span
    }

    fn outcome(&self, part: Part, end: End, batch: Option<Batched>) -> Outcome {
        Outcome {
            delivery: part.delivery,
            webhook: self.lease.webhook,
            token: self.lease.token,
            probe: false,
            organisation: self.lease.organisation,
            event_type: part.kind,
            entity: part.entity,
            end,
            attempt: None,
            hold: None,
            batch,
        }
    }

    fn call(&self, content: &Content, parts: &[Part], is_batch: bool, timestamp: i64) -> Option<Call> {
        let id = content.id.to_string();
        let signature = self.lease.signer.sign(&id, timestamp, &content.body);
        // Without tracing here, the trace of the original caller continues; without that, all attempts of an
        // event form one trace (W3C trace context), each attempt a span of it. With tracing, the client
        // replaces the span by its own.
        let first = parts.first()?;
        let (_, low) = first.delivery.get().as_u64_pair();
        let span = low.wrapping_add(u64::try_from(first.attempts).unwrap_or(0));
        let trace = content
            .traceparent
            .as_deref()
            .and_then(|parent| trace::child(parent, span))
            .unwrap_or_else(|| format!("00-{}-{span:016x}-01", content.id.simple()));
        let mut headers = HeaderMap::with_capacity(HEADERS);
        headers.extend(self.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        for (name, value) in [
            (WEBHOOK_ID, id),
            (WEBHOOK_TIMESTAMP, timestamp.to_string()),
            (WEBHOOK_SIGNATURE, signature),
            (TRACEPARENT, trace),
        ] {
            headers.insert(name, HeaderValue::try_from(value).ok()?);
        }
        Some(Call {
            method: Method::POST,
            url: self.url.clone()?,
            headers,
            body: content.body.clone(),
            deadline: self.deadline,
            answer_bytes: if is_batch { ANSWER_READ_OF_BATCH } else { ANSWER_READ },
        })
    }
}

/// The meaning of an answer.
struct Verdict {
    /// The destination accepted the delivery: its status says so, whatever became of the rest of its answer.
    is_delivered: bool,
    status: Option<u16>,
    /// Why the destination did not accept the delivery, and what could not be read of its answer.
    error: Option<String>,
    response: Option<String>,
    /// Headers of an answer that is a failure.
    headers: Option<BTreeMap<String, String>>,
}

impl Verdict {
    fn of(answer: &Result<Reply, CallError>) -> Self {
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => {
                let error = Some(storable(&error.to_string()));
                return Self { is_delivered: false, status: None, error, response: None, headers: None };
            }
        };
        let is_delivered = reply.status.is_success();
        let error = match &reply.fault {
            Some(fault) => Some(storable(&fault.to_string())),
            None if is_delivered => None,
            None if reply.status.is_redirection() && reply.headers.contains_key(LOCATION) => {
                Some("redirects are not followed".to_owned())
            }
            None => Some(format!("answered {}", reply.status.as_u16())),
        };
        let response = (!reply.body.is_empty()).then(|| kept(&reply.body));
        // of a success they say nothing, and would be most of what is stored
        let headers = (!is_delivered).then(|| kept_headers(&reply.headers)).filter(|kept| !kept.is_empty());
        Self { is_delivered, status: Some(reply.status.as_u16()), error, response, headers }
    }
}

/// The first headers of an answer as text, each cut to its beginning. Cookies may open something, and are left out.
fn kept_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let shown = headers.iter().filter(|(name, _)| *name != SET_COOKIE).take(HEADERS_KEPT);
    let text = |value: &HeaderValue| -> String {
        String::from_utf8_lossy(value.as_bytes()).chars().take(HEADER_KEPT).collect()
    };
    shown.map(|(name, value)| (name.as_str().to_owned(), storable(&text(value)))).collect()
}

/// The beginning of a body as text, without a character that the cut would split.
fn kept(body: &[u8]) -> String {
    let head = &body[..body.len().min(ANSWER_KEPT)];
    let whole = match std::str::from_utf8(head) {
        Err(error) if error.error_len().is_none() => &head[..error.valid_up_to()],
        _ => head,
    };
    storable(&String::from_utf8_lossy(whole))
}

/// Postgres stores every character but U+0000.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_headers_of_an_answer_are_bounded_text_without_cookies() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", HeaderValue::from_static("120"));
        headers.insert(SET_COOKIE, HeaderValue::from_static("session=secret"));
        headers.insert("x-long", HeaderValue::from_str(&"x".repeat(1_000)).unwrap());
        headers.insert("x-bytes", HeaderValue::from_bytes(b"a\xff").unwrap());
        let kept = kept_headers(&headers);
        assert_eq!(kept.len(), 3);
        assert_eq!((kept["retry-after"].as_str(), kept["x-long"].len()), ("120", HEADER_KEPT));
        assert_eq!(kept["x-bytes"], "a\u{fffd}");
        for number in 0..100 {
            headers
                .insert(HeaderName::try_from(format!("x-{number}")).unwrap(), HeaderValue::from_static("1"));
        }
        assert!(kept_headers(&headers).len() <= HEADERS_KEPT);
    }

    #[test]
    fn the_stored_part_of_an_answer_is_text_that_postgres_accepts() {
        assert_eq!(kept(b"ok"), "ok");
        assert_eq!(kept(b"a\0b\xffc"), "a\u{fffd}b\u{fffd}c");
        let long = "ü".repeat(2_000);
        assert_eq!(kept(long.as_bytes()), "ü".repeat(1_024));
        assert_eq!(kept(format!("x{long}").as_bytes()), format!("x{}", "ü".repeat(1_023)));
    }
}
