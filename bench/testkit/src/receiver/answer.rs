//! Answers of a destination: correct, wrong, late, or none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::Value;
use tokio::sync::watch;

use super::record::Receipt;

/// The interval of the bytes of a dripping answer.
const DRIP: Duration = Duration::from_millis(50);

/// The answer of a path.
#[derive(Debug, Clone)]
pub enum Answer {
    /// This status, without a body.
    Status(u16),
    /// This status with this body.
    Body(u16, Bytes),
    /// This status with this JSON.
    Json(u16, Value),
    /// This status with a `Retry-After` of this many seconds.
    RetryAfter(u16, u64),
    /// A 307 to this URL.
    Redirect(String),
    /// No answer; the connection stays open.
    Hang,
    /// No answer; the connection is closed.
    Cut,
    /// A body without an end.
    Flood,
    /// A 200 with this many bytes.
    Large(usize),
    /// A 200 whose body comes byte by byte, without an end.
    Drip,
    /// A 200 that declares more bytes than it sends, then closes the connection.
    Short,
    /// Another answer after this time.
    After(Duration, Box<Answer>),
    /// Another answer when the gate is open.
    Gated(Gate, Box<Answer>),
    /// One answer per request, in order; the last one repeats.
    Sequence(Vec<Answer>),
    /// A document with headers, complete or cut off.
    Document(Document),
    /// Depends on the request.
    By(By),
}

/// A document, as a file server or an API sends it.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// Headers other than the length.
    pub headers: Vec<(HeaderName, String)>,
    /// The body.
    pub body: Bytes,
    /// The connection is closed after this many bytes.
    pub cut_after: Option<usize>,
    /// The connection stays open there instead, without further bytes.
    pub hangs: bool,
}

/// Computes an answer from the request.
#[derive(Clone)]
pub struct By(Arc<dyn Fn(&Receipt) -> Answer + Send + Sync>);

impl By {
    /// Answers by this rule.
    pub fn new(rule: impl Fn(&Receipt) -> Answer + Send + Sync + 'static) -> Self {
        Self(Arc::new(rule))
    }

    pub(super) fn answer(&self, receipt: &Receipt) -> Answer {
        (self.0)(receipt)
    }
}

impl std::fmt::Debug for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("By")
    }
}

/// Holds answers back until it is opened; clones share one gate.
#[derive(Debug, Clone)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn closed() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Releases all waiting and later answers.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    async fn passed(&self) {
        // The sender is part of this gate, so only opening it ends the wait.
        _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

/// Closes the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("cut off by order")]
pub(super) struct Cut;

/// 204, the default answer.
pub(super) fn no_content() -> Response<Body> {
    status(StatusCode::NO_CONTENT)
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

impl Answer {
    /// Sends the answer, or closes the connection.
    pub(super) async fn respond(mut self) -> Result<Response<Body>, Cut> {
        loop {
            match self {
                Self::After(wait, then) => {
                    tokio::time::sleep(wait).await;
                    self = *then;
                }
                Self::Gated(gate, then) => {
                    gate.passed().await;
                    self = *then;
                }
                Self::Hang => std::future::pending().await,
                Self::Cut => return Err(Cut),
                Self::Status(code) => return Ok(status(code_of(code))),
                Self::Body(code, body) => return Ok(with_body(code, Body::from(body))),
                Self::Json(code, body) => {
                    let mut response = with_body(code, Body::from(body.to_string()));
                    response
                        .headers_mut()
                        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                    return Ok(response);
                }
                Self::RetryAfter(code, seconds) => {
                    return Ok(with_header(code, header::RETRY_AFTER, HeaderValue::from(seconds)));
                }
                Self::Redirect(url) => {
                    let url = HeaderValue::from_str(&url).map_err(|_| Cut)?;
                    return Ok(with_header(307, header::LOCATION, url));
                }
                Self::Flood => {
                    let chunk = Bytes::from(vec![b'x'; 16 * 1024]);
                    let endless = stream::repeat_with(move || Ok::<_, Cut>(chunk.clone()));
                    return Ok(with_body(200, Body::from_stream(endless)));
                }
                Self::Large(bytes) => {
                    let chunk = Bytes::from(vec![b'x'; 16 * 1024]);
                    let parts = stream::unfold(bytes, move |left| {
                        let part = chunk.slice(..chunk.len().min(left));
                        std::future::ready(
                            (left > 0).then(|| (Ok::<_, Cut>(part.clone()), left - part.len())),
                        )
                    });
                    let mut response = with_body(200, Body::from_stream(parts));
                    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
                    return Ok(response);
                }
                Self::Drip => {
                    let drops = stream::unfold(tokio::time::interval(DRIP), |mut drops| async {
                        drops.tick().await;
                        Some((Ok::<_, Cut>(Bytes::from_static(b"x")), drops))
                    });
                    return Ok(with_body(200, Body::from_stream(drops)));
                }
                Self::Short => {
                    let half = stream::once(async { Ok(Bytes::from_static(b"{\"half\":")) });
                    // Lets the head and the first half leave before the connection is closed.
                    let end = stream::once(async {
                        tokio::task::yield_now().await;
                        Err(Cut)
                    });
                    let parts = half.chain(end);
                    let mut response = with_body(200, Body::from_stream(parts));
                    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(1_000));
                    return Ok(response);
                }
                Self::Document(document) => return document.respond(),
                // A rule in a sequence has no request to look at.
                Self::By(_) => return Ok(no_content()),
                // A sequence in a sequence: use its first answer.
                Self::Sequence(answers) => match answers.into_iter().next() {
                    Some(first) => self = first,
                    None => return Ok(no_content()),
                },
            }
        }
    }
}

impl Document {
    fn respond(self) -> Result<Response<Body>, Cut> {
        let length = HeaderValue::from(self.body.len());
        let body = match self.cut_after {
            None => Body::from(self.body),
            Some(kept) => {
                let kept = self.body.slice(..kept.min(self.body.len()));
                let hangs = self.hangs;
                let parts = stream::iter([Ok(kept)]).chain(stream::once(async move {
                    if hangs {
                        std::future::pending::<()>().await;
                    }
                    // Lets the part leave before the connection is closed.
                    tokio::task::yield_now().await;
                    Err(Cut)
                }));
                Body::from_stream(parts)
            }
        };
        let mut response = with_body(200, body);
        response.headers_mut().insert(header::CONTENT_LENGTH, length);
        for (name, value) in self.headers {
            response.headers_mut().insert(name, HeaderValue::from_str(&value).map_err(|_| Cut)?);
        }
        Ok(response)
    }
}

fn code_of(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn with_body(code: u16, body: Body) -> Response<Body> {
    let mut response = status(code_of(code));
    *response.body_mut() = body;
    response
}

fn with_header(code: u16, name: HeaderName, value: HeaderValue) -> Response<Body> {
    let mut response = status(code_of(code));
    response.headers_mut().insert(name, value);
    response
}

/// The answers by path. Without any, a request costs one atomic load.
#[derive(Debug, Default)]
pub(super) struct Answers {
    any: AtomicBool,
    by_path: RwLock<HashMap<String, Arc<Mutex<Answer>>>>,
    default: RwLock<Option<Arc<Mutex<Answer>>>>,
}

impl Answers {
    pub(super) fn set(&self, path: &str, answer: Answer) {
        let path = format!("/{}", path.trim_start_matches('/'));
        let mut by_path = self.by_path.write().unwrap_or_else(PoisonError::into_inner);
        by_path.insert(path, Arc::new(Mutex::new(answer)));
        self.any.store(true, Ordering::Release);
    }

    pub(super) fn set_default(&self, answer: Answer) {
        let mut default = self.default.write().unwrap_or_else(PoisonError::into_inner);
        *default = Some(Arc::new(Mutex::new(answer)));
        self.any.store(true, Ordering::Release);
    }

    /// The answer to the next request for a path; `None` if none was set.
    pub(super) fn of(&self, path: &str) -> Option<Answer> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let by_path = self.by_path.read().unwrap_or_else(PoisonError::into_inner);
        let set = by_path
            .get(path)
            .cloned()
            .or_else(|| self.default.read().unwrap_or_else(PoisonError::into_inner).clone())?;
        let mut set = set.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *set {
            Answer::Sequence(answers) if answers.len() > 1 => Some(answers.remove(0)),
            answer => Some(answer.clone()),
        }
    }
}
