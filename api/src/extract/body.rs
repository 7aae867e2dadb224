//! JSON bodies: bounded, parsed once, refused in the one error shape.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use longshore_shared::platform::crypto::sha256;
use longshore_shared::platform::json;
use longshore_shared::platform::problem::{
    MALFORMED_BODY, Problem, TOO_LARGE, UNSUPPORTED_CONTENT_ENCODING, UNSUPPORTED_MEDIA_TYPE,
};
use serde_json::Value;

use super::Failure;
use super::stall::{Stall, Steady};

/// What a body may have, unless its operation says otherwise.
pub const DEFAULT_LIMIT: usize = 1024 * 1024;

/// A JSON body of at most `LIMIT` bytes.
#[derive(Debug)]
pub struct JsonBody<const LIMIT: usize = DEFAULT_LIMIT> {
    /// The parsed body.
    pub value: Value,
    /// SHA-256 of its bytes, for the idempotency key.
    pub hash: [u8; 32],
}

/// A JSON body that may be left out.
#[derive(Debug)]
pub struct OptionalJson(pub Option<Value>);

impl<S: Send + Sync, const LIMIT: usize> FromRequest<S> for JsonBody<LIMIT> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        must_be(request.headers(), &["application/json"])?;
        let bytes = read(request, LIMIT).await?;
        if bytes.is_empty() {
            return Err(Problem::new(&MALFORMED_BODY, "the body is missing; it must be JSON").into());
        }
        Ok(Self { value: parse(&bytes)?, hash: sha256(&bytes) })
    }
}

impl<S: Send + Sync> FromRequest<S> for OptionalJson {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        let headers = request.headers().clone();
        let bytes = read(request, DEFAULT_LIMIT).await?;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        must_be(&headers, &["application/json"])?;
        Ok(Self(Some(parse(&bytes)?)))
    }
}

/// The media type of the body, which must be one of these; a missing header is taken for the first. The body must come as
/// it is: an encoded one would be taken for what it encodes.
pub fn must_be(headers: &HeaderMap, allowed: &[&'static str]) -> Result<&'static str, Problem> {
    if !is_as_it_is(headers) {
        let detail = "Content-Encoding must be identity: bodies are taken as they are";
        return Err(Problem::new(&UNSUPPORTED_CONTENT_ENCODING, detail));
    }
    let Some(first) = allowed.first() else { return Err(Problem::internal("no media type is allowed")) };
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(first) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    allowed.iter().copied().find(|a| essence.eq_ignore_ascii_case(a)).ok_or_else(|| {
        Problem::new(&UNSUPPORTED_MEDIA_TYPE, format!("Content-Type must be {}", allowed.join(" or ")))
    })
}

/// Whether no encoding was applied to the body.
fn is_as_it_is(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).into_iter().all(|value| {
        let mut codings = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        codings.all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity"))
    })
}

/// Reads a body whole, up to a limit, from a client that does not stall.
pub async fn read(request: Request, limit: usize) -> Result<Bytes, Problem> {
    let announced =
        request.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    if announced.is_some_and(|length: usize| length > limit) {
        return Err(too_large(limit));
    }
    let stall = Stall::of(request.extensions());
    collect(request.into_body(), limit, stall).await
}

async fn collect(body: Body, limit: usize, stall: Stall) -> Result<Bytes, Problem> {
    let mut pieces = Steady::new(body, stall);
    let mut collected = BytesMut::new();
    while let Some(chunk) = pieces.next().await? {
        if collected.len() + chunk.len() > limit {
            return Err(too_large(limit));
        }
        collected.extend_from_slice(&chunk);
    }
    Ok(collected.freeze())
}

/// The body is larger than the operation takes.
#[must_use]
pub fn too_large(limit: usize) -> Problem {
    Problem::new(&TOO_LARGE, format!("the body is larger than {limit} bytes"))
}

fn parse(bytes: &[u8]) -> Result<Value, Problem> {
    json::parse(bytes).map_err(|unread| unread.problem("the body"))
}
