//! JSON bodies: bounded, parsed once, and refused in the one error shape.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{FromRequest, Request};
use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use longshore_domain::list::Form;
use longshore_kernel::crypto::sha256;
use longshore_kernel::json::{self, BYTE_ORDER_MARK};
use longshore_kernel::problem::{MALFORMED_BODY, Problem, TOO_LARGE, UNSUPPORTED_MEDIA_TYPE};
use serde_json::Value;
use url::form_urlencoded;

use super::Failure;
use super::accept;
use super::arriving::{self, Arriving};
use super::budget::Budget;

/// Maximum bytes of a body, unless its operation has another limit.
pub const DEFAULT_LIMIT: usize = 1024 * 1024;

/// A JSON body of at most `LIMIT` bytes.
#[derive(Debug)]
pub struct JsonBody<const LIMIT: usize = DEFAULT_LIMIT> {
    /// The parsed body.
    pub value: Value,
    /// SHA-256 of its decompressed bytes, for the idempotency key.
    pub hash: [u8; 32],
}

/// An optional JSON body; `null`, which generated clients send for none, is none. An operation that takes one takes no query
/// parameters: `?limit=5` would be ignored, and the list answer with everything.
#[derive(Debug)]
pub struct OptionalJson(pub Option<Value>);

impl OptionalJson {
    /// SHA-256 of its value, or of nothing, for the idempotency key.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        sha256(self.0.as_ref().map(Value::to_string).unwrap_or_default().as_bytes())
    }
}

/// What a list operation is asked: its optional body, and the form of its answer (`Accept`).
#[derive(Debug)]
pub struct ListRequest {
    /// The query.
    pub body: Option<Value>,
    /// How the list is to be written.
    pub form: Form,
}

/// The body as it was sent, so that a refusal can contain the refused values; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Sent(Arc<Mutex<Bytes>>);

impl Sent {
    /// Keeps it until the request is answered.
    pub fn keep(&self, body: Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = body;
    }

    /// Its value, if it is JSON.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        serde_json::from_slice(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).ok()
    }
}

impl<S: Send + Sync, const LIMIT: usize> FromRequest<S> for JsonBody<LIMIT> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        must_be(request.headers(), &["application/json"])?;
        without_query(&request)?;
        let budget = Budget::of(request.extensions());
        let bytes = read(request, LIMIT).await?;
        if bytes.is_empty() {
            return Err(Problem::new(&MALFORMED_BODY, "the body is missing; it must be JSON").into());
        }
        Ok(Self { value: parse_within(&budget, &bytes)?, hash: sha256(&bytes) })
    }
}

impl<S: Send + Sync> FromRequest<S> for OptionalJson {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        without_query(&request)?;
        let (headers, budget) = (request.headers().clone(), Budget::of(request.extensions()));
        let bytes = read(request, DEFAULT_LIMIT).await?;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        must_be(&headers, &["application/json"])?;
        Ok(Self(Some(parse_within(&budget, &bytes)?).filter(|body| !body.is_null())))
    }
}

impl<S: Send + Sync> FromRequest<S> for ListRequest {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let form = accept::form(request.headers());
        let OptionalJson(body) = OptionalJson::from_request(request, state).await?;
        Ok(Self { body, form })
    }
}

/// Refuses a query with a body of JSON: what is asked for there would be passed over, as a dry run.
///
/// # Errors
/// Its first parameter.
pub fn without_query(request: &Request) -> Result<(), Problem> {
    let query = request.uri().query().unwrap_or_default();
    match form_urlencoded::parse(query.as_bytes()).next() {
        Some((name, _)) => {
            let message = "is not a query parameter; send what the operation takes in the body";
            Err(Problem::violation(name, "unknown_field", message))
        }
        None => Ok(()),
    }
}

/// The media type of the body, which must be one of `allowed`; without the header it is the first. The coding
/// must be supported.
pub fn must_be(headers: &HeaderMap, allowed: &[&'static str]) -> Result<&'static str, Problem> {
    arriving::coding(headers)?;
    let Some(first) = allowed.first() else { return Err(Problem::internal("no media type is allowed")) };
    let Some(essence) = media_type(headers) else { return Ok(first) };
    allowed.iter().copied().find(|a| essence.eq_ignore_ascii_case(a)).ok_or_else(|| {
        // what `curl -d` says of any body
        let is_form = essence.eq_ignore_ascii_case("application/x-www-form-urlencoded");
        let with_curl =
            if is_form { "; with curl, name it by -H, and send the body with --data-binary" } else { "" };
        let detail = format!("Content-Type must be {}{with_curl}", allowed.join(" or "));
        Problem::new(&UNSUPPORTED_MEDIA_TYPE, detail)
    })
}

/// The declared media type of a body, without its parameters.
pub fn media_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(value.split(';').next().unwrap_or_default().trim())
}

/// Reads and decompresses a whole body up to a limit, from a client that does not stall, and removes a byte
/// order mark.
pub async fn read(request: Request, limit: usize) -> Result<Bytes, Problem> {
    let announced =
        request.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    if announced.is_some_and(|length: usize| length > limit) {
        return Err(too_large(limit));
    }
    let sent = request.extensions().get::<Sent>().cloned();
    let mut body = collect(Arriving::of(request)?.at_most(limit), limit).await?;
    if body.starts_with(BYTE_ORDER_MARK) {
        body.advance(BYTE_ORDER_MARK.len());
    }
    if let Some(sent) = sent {
        sent.keep(body.clone());
    }
    Ok(body)
}

async fn collect(mut pieces: Arriving, limit: usize) -> Result<Bytes, Problem> {
    let mut collected = BytesMut::new();
    while let Some(chunk) = pieces.next(collected.len()).await? {
        if collected.len() + chunk.len() > limit {
            return Err(too_large(limit));
        }
        collected.extend_from_slice(&chunk);
    }
    Ok(collected.freeze())
}

/// The problem of a body that is larger than the operation allows.
#[must_use]
pub fn too_large(limit: usize) -> Problem {
    Problem::new(&TOO_LARGE, format!("the body is larger than {limit} bytes"))
}

/// Parses a body if its values fit in the budget.
pub(super) fn parse_within(budget: &Budget, bytes: &[u8]) -> Result<Value, Problem> {
    budget.set(bytes.len() + json::weight(bytes))?;
    json::parse(bytes).map_err(|unread| unread.problem("the body"))
}
